"""Animations and pages: how many inputs have more frames than were read, and all of them where they are asked for."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import cordwood as cw
from cordwood.errors import PackError, UsageError
from tests.images.pictures import animated, frames_by_pillow, picture, scenes, written
from tests.packing.support.numbers import Numbers, pack

STILLS = 40
MOVING = {"cat/b.gif": "GIF", "cat/b.png": "PNG", "dog/y.tif": "TIFF", "dog/z.webp": "WEBP"}
NOTE = re.compile(
    r'4 of 44 inputs \(such as cat/b\.gif\) have more than one frame, and the first one of each was read; frames="all" '
    r"\(--frames all\) gives all of them"
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("frames") / "in"
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
    for number in range(STILLS):
        name = ("cat", "dog")[number % 2]
        (root / name / f"{'a' if name == 'cat' else 'x'}{number:02d}.jpg").write_bytes(written(picture(), "JPEG"))
    for seed, (path, format) in enumerate(MOVING.items()):
        (root / path).write_bytes(animated(format, scenes(3 + seed, seed=seed)))
    return root


def noted(packed: Any) -> list[str]:
    return [note for note in packed.notes if "frame" in note]


def small(sample: dict[str, Any]) -> dict[str, Any]:
    return {"path": sample["path"], "image": sample["image"][:, :2, :2]}


def whole_batches(batch: dict[str, Any]) -> dict[str, Any]:
    return {"path": batch["path"]}


class Stop(Exception):  # noqa: N818 - no error
    """Stops a job from its progress."""


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", [{}, {"transform": whole_batches, "batched": True, "batch_size": 3}])
def test_the_summary_counts_them(source: Path, tmp_path: Path, workers: int, options: dict[str, Any]) -> None:
    packed = pack(source, tmp_path / "s", workers=workers, **options)
    assert packed.samples == 44
    assert packed.more_frames == packed.to_dict()["more_frames"] == 4
    assert NOTE.fullmatch(noted(packed)[0])
    assert f"note: {noted(packed)[0]}" in str(packed)
    again = pack(source, tmp_path / "s", workers=workers, **options)
    assert noted(again) == noted(packed)
    assert cw.verify(tmp_path / "s").ok


@pytest.mark.parametrize("stop", [1, 21, 43])
@pytest.mark.parametrize("shard_bytes", [1, 1 << 26])
def test_a_job_that_was_stopped_counts_the_same(source: Path, tmp_path: Path, stop: int, shard_bytes: int) -> None:
    whole = pack(source, tmp_path / "whole", small, shard_bytes=shard_bytes)

    def stopped(state: Any) -> None:
        if state.inputs >= stop:
            raise Stop

    with pytest.raises(Stop):
        pack(source, tmp_path / "s", small, shard_bytes=shard_bytes, progress=stopped)
    packed = pack(source, tmp_path / "s", small, shard_bytes=shard_bytes)
    assert noted(packed) == noted(whole)
    assert NOTE.fullmatch(noted(packed)[0])
    for path in (tmp_path / "whole").rglob("*.jsonl"):
        assert path.read_bytes() == (tmp_path / "s" / "inputs" / path.name).read_bytes()
    assert (tmp_path / "whole" / "pack.json").read_bytes() == (tmp_path / "s" / "pack.json").read_bytes()


def test_inputs_that_fail_are_not_counted_and_dropped_ones_are(source: Path, tmp_path: Path) -> None:
    def picky(sample: dict[str, Any]) -> Any:
        if sample["path"] == "cat/b.gif":
            raise ValueError("no")
        return None if sample["path"] == "cat/b.png" else small(sample)

    packed = pack(source, tmp_path / "s", picky, on_error="skip")
    assert (packed.failed, packed.dropped, packed.more_frames) == (1, 1, 3)
    assert noted(packed)[0].startswith("3 of 44 inputs (such as cat/b.png) have")


def test_stills_are_not_noted(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.gif").write_bytes(written(picture("P"), "GIF"))
    packed = pack(tmp_path / "in", tmp_path / "s")
    assert (packed.more_frames, noted(packed)) == (0, [])
    (tmp_path / "in" / "2.gif").write_bytes(animated("GIF", scenes(2)))
    packed = pack(tmp_path / "in", tmp_path / "t", decode="none")  # the bytes have all frames
    assert (packed.more_frames, noted(packed)) == (0, [])
    packed = pack(tmp_path / "in", tmp_path / "u", {"image": lambda image: len(image.getbands())}, decode="pil")
    assert noted(packed)[0].startswith("1 of 2 inputs (such as 2.gif) has more than one frame, and")


def test_all_inputs_dropped(source: Path, tmp_path: Path) -> None:
    packed = pack(source, tmp_path / "s", lambda sample: None)
    assert noted(packed)[0].startswith("4 of 44 inputs have more than one frame")


def test_an_update_counts_what_the_store_has(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    for number in range(12):
        (root / f"{number:02d}.jpg").write_bytes(written(picture(seed=number), "JPEG"))
    for name in ("03a.gif", "07a.gif"):
        (root / name).write_bytes(animated("GIF", scenes(3)))
    options = {"shard_bytes": 10_000}
    assert pack(root, tmp_path / "s", **options).more_frames == 2
    assert len(list((tmp_path / "s").glob("*.cws"))) > 2
    (root / "02.jpg").unlink()  # in the shard of the first
    (root / "07a.gif").write_bytes(written(picture("P"), "GIF"))
    (root / "99.gif").write_bytes(animated("GIF", scenes(2)))
    packed = pack(root, tmp_path / "s", update=True, **options)
    assert packed.more_frames == 2
    (root / "03a.gif").unlink()
    packed = pack(root, tmp_path / "s", update=True, **options)
    assert noted(packed)[0].startswith("1 of 13 inputs (such as 99.gif) has")


def test_parts_count_their_own_and_together_all(source: Path, tmp_path: Path) -> None:
    parts = [pack(source, tmp_path / f"{k}", part=(k, 2)) for k in (1, 2)]
    assert [part.more_frames for part in parts] == [2, 2]
    cw.merge([tmp_path / "1", tmp_path / "2"], tmp_path / "merged")
    assert json.loads((tmp_path / "merged" / "pack.json").read_bytes())["totals"]["more_frames"] == 4


def test_a_manifest_may_name_a_file_twice(source: Path, tmp_path: Path) -> None:
    (source / "list.csv").write_text("path\ncat/b.gif\ncat/a00.jpg\ncat/b.gif\n")
    try:
        packed = pack(source / "list.csv", tmp_path / "s")
        assert noted(packed)[0].startswith("2 of 3 inputs (such as cat/b.gif")
        pack(source / "list.csv", tmp_path / "all", frames="all")
        assert [sample["image"].shape[0] for sample in cw.open(tmp_path / "all")] == [3, 1, 3]
    finally:
        (source / "list.csv").unlink()


def test_kept_files_are_noted_too(source: Path, tmp_path: Path) -> None:
    packed = pack(source, tmp_path / "s", fields={"image": cw.Field(keep_encoded=True)})
    assert re.search(
        r"^4 of 44 inputs .* reading decodes the first one of each; .*\(--frames all\) in place of keep_encoded gives",
        noted(packed)[0],
    )
    dataset = cw.open(tmp_path / "s")
    for sample in dataset:
        if sample["path"] in MOVING:
            expected = frames_by_pillow((source / sample["path"]).read_bytes())[0]
            assert torch.equal(sample["image"], expected)


def test_a_dry_run_notes_them(source: Path, tmp_path: Path) -> None:
    found = cw.pack(source, tmp_path / "s", limit=44)
    assert NOTE.fullmatch(found.notes[0])
    assert f"note: {found.notes[0]}" in str(found)
    assert found.to_dict()["notes"] == list(found.notes)
    found = cw.pack(source, tmp_path / "s", limit=44, frames="all")
    assert found.notes == ()


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_all_frames_of_every_file(source: Path, tmp_path: Path, workers: int) -> None:
    packed = pack(source, tmp_path / "s", workers=workers, frames="all")
    assert (packed.samples, packed.more_frames, noted(packed)) == (44, 0, [])
    for sample in cw.open(tmp_path / "s"):
        expected = frames_by_pillow((source / sample["path"]).read_bytes())
        assert sample["image"].dtype == torch.uint8
        assert len(expected) == (1 if sample["path"] not in MOVING else 3 + list(MOVING).index(sample["path"]))
        assert torch.equal(sample["image"], expected)


def test_all_frames_as_pil_images(source: Path, tmp_path: Path) -> None:
    def modes(images: list[Image.Image]) -> str:
        return " ".join(f"{image.mode}{image.width}" for image in images)

    pack(source, tmp_path / "s", {"image": modes}, decode="pil", frames="all")
    told = {sample["path"]: sample["image"] for sample in cw.open(tmp_path / "s")}
    assert told["cat/a00.jpg"] == "RGB61"
    assert told["cat/b.png"] == " ".join(["RGBA40"] * 4)
    for path in MOVING:
        with Image.open(source / path) as image:
            assert told[path].count("40") == image.n_frames  # type: ignore[attr-defined]


def test_resuming_with_other_frames_is_refused(source: Path, tmp_path: Path) -> None:
    pack(source, tmp_path / "s")
    with pytest.raises(UsageError, match='the source had frames "first", and has "all" now'):
        pack(source, tmp_path / "s", frames="all")


def test_frames_that_differ_are_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "scan.tif").write_bytes(animated("TIFF", [picture(), picture("L")]))
    told = r"scan\.tif.*: page 2 of 2 is 61 x 47 of mode L, but page 1 is 61 x 47 of mode RGB: .*frames=\"first\""
    with pytest.raises(PackError, match=told):
        pack(tmp_path / "in", tmp_path / "s", frames="all")


def test_the_limit_counts_all_frames(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.gif").write_bytes(animated("GIF", scenes(3)))
    with pytest.raises(PackError, match=r"3 frames of 40 x 30, 3,600 pixels; 3,599 are allowed"):
        pack(tmp_path / "in", tmp_path / "s", frames="all", max_pixels=3599)
    assert pack(tmp_path / "in", tmp_path / "t", max_pixels=3599).samples == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"decode": "none"}, r'decode="none" keeps the bytes'),
        ({"fields": {"image": cw.Field(keep_encoded=True)}}, r"a field with keep_encoded keeps the bytes"),
        ({"frames": "last"}, r"frames"),
    ],
)
def test_what_does_not_go_together(source: Path, tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        pack(source, tmp_path / "s", **{"frames": "all", **options})
    assert not (tmp_path / "s").exists()


def test_a_source_without_image_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"image files, and a source of kind 'dataset' reads none"):
        pack(Numbers(3), tmp_path / "s", frames="all")
