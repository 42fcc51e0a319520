"""Links that cannot be read are inputs that fail: listed and skipped, or the job stops there."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.errors import PackError
from tests.packing.support.forkedworkers import fork_in
from tests.packing.support.numbers import pack
from tests.packing.support.packed_stores import entries_of
from tests.sources import photos
from tests.store.support.photos import files_of

WRONG = {
    "cat/gone.png": "which does not exist",
    "cat/loop.png": "a loop of links",
    "cat/out.png": "which is outside of",
    "dog/up": "a folder that the link lies in",
    "self": "the folder itself that is packed",
}


def folder(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    photos.write(root, "cat/1.png", "cat/m.png", "dog/2.png", "dog/z.png")
    photos.write(tmp_path, "secret.png")
    targets = dict(zip(WRONG, ("nothing", "loop.png", "../../secret.png", ".", "."), strict=True))
    for name, target in targets.items():
        (root / name).symlink_to(target)
    return root


@pytest.mark.filterwarnings("ignore:5 of 9 inputs failed")
@pytest.mark.parametrize("workers", [0, 2])
def test_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    fork_in(monkeypatch)
    packed = pack(folder(tmp_path), tmp_path / "s", on_error="skip", workers=workers)
    assert (packed.samples, packed.failed) == (4, len(WRONG))
    told = [json.loads(line) for line in (tmp_path / "s.errors.jsonl").read_text().splitlines()]
    assert {one["name"] for one in told} == set(WRONG)
    for one in told:
        assert WRONG[one["name"]] in one["error"]
    assert [sample["path"] for sample in cw.open(tmp_path / "s")] == [
        "cat/1.png",
        "cat/m.png",
        "dog/2.png",
        "dog/z.png",
    ]
    assert {entry.name for entry in entries_of(tmp_path / "s") if entry.samples == -1} <= set(WRONG)
    pack(tmp_path / "photos", tmp_path / "again", on_error="skip")
    assert files_of(tmp_path / "s") == files_of(tmp_path / "again")


def test_stopped_and_resumed(tmp_path: Path) -> None:
    root = folder(tmp_path)
    (root / "self").unlink()
    with pytest.raises(PackError, match=r"input 1 \(cat/gone\.png\) failed: FormatError: it is a link to 'nothing'"):
        pack(root, tmp_path / "s")
    for name in set(WRONG) - {"self"}:
        (root / name).unlink()
    packed = pack(root, tmp_path / "s", update=True)
    assert (packed.samples, packed.failed) == (4, 0)


@pytest.mark.filterwarnings("ignore:. of 9 inputs failed")
def test_a_link_that_was_mended_is_packed_by_an_update(tmp_path: Path) -> None:
    root = folder(tmp_path)
    pack(root, tmp_path / "s", on_error="skip")
    (root / "cat" / "nothing").write_bytes(photos.encoded(7))
    packed = pack(root, tmp_path / "s", on_error="skip", update=True, follow_links=True)
    names = {sample["path"] for sample in cw.open(tmp_path / "s")}
    assert {"cat/gone.png", "cat/out.png"} < names
    assert packed.failed == len(WRONG) - 2


@pytest.mark.filterwarnings("ignore:. of . inputs failed")
@pytest.mark.parametrize("kind", ["manifest", "tensors"])
def test_other_sources(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "in"
    root.mkdir()
    name = {"manifest": "{}.png", "tensors": "{}.pt"}[kind]
    (root / name.format("gone")).symlink_to("nothing")
    (root / name.format("out")).symlink_to("../secret")
    if kind == "manifest":
        photos.write(tmp_path, "secret", "in/1.png")
        (root / "list.csv").write_text("path\n1.png\ngone.png\nout.png\n")
    else:
        for place in (tmp_path / "secret", root / "1.pt"):
            torch.save({"x": torch.arange(3)}, place)
    source: Any = root / "list.csv" if kind == "manifest" else root
    packed = pack(source, tmp_path / "s", on_error="skip")
    assert (packed.samples, packed.failed) == (1, 2)
    errors = (tmp_path / "s.errors.jsonl").read_text()
    assert "which does not exist" in errors
    assert "which is outside of" in errors
    with pytest.raises(PackError, match=r"gone\.(png|pt)\) failed: FormatError: it is a link to 'nothing'"):
        pack(source, tmp_path / "t")
