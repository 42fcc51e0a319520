"""``cw.Field(keep_encoded=True)``: image files as they came, decoded by whoever reads."""

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import cordwood as cw
from cordwood.errors import FormatError, UsageError
from tests.format.store.craft_store import store_json
from tests.format.store.store_readers import plain
from tests.images.pictures import decode, exif, picture, written

KEPT = {"image": cw.Field(keep_encoded=True)}


def files(count: int, width: int = 40, height: int = 30) -> list[bytes]:
    """Photographs in several formats, some of them turned."""
    made = []
    for number in range(count):
        image = picture("RGB", width, height, number)
        format = ("JPEG", "PNG", "WEBP", "BMP")[number % 4]
        made.append(written(image, format, exif=exif(3)) if format == "JPEG" else written(image, format))
    return made


def packed(path: Path, given: list[Any], **options: Any) -> cw.Dataset:
    with cw.Writer(path, fields=KEPT, **options) as writer:
        for number, data in enumerate(given):
            writer.append({"image": data, "label": number})
    return cw.open(path)


@pytest.mark.parametrize("count", [5, 300])  # within the samples that tell the schema, and beyond
def test_a_sample_is_the_decoded_image(tmp_path: Path, count: int) -> None:
    given = files(5) * (count // 5)
    ds = packed(tmp_path / "s", given)
    assert len(ds) == count
    for number in (0, 1, 2, 3, 4, count - 1):
        assert torch.equal(ds[number]["image"], decode(given[number]))
        assert ds[number]["label"] == number
    assert [tuple(sample["image"].shape) for sample in ds.__getitems__([3, 1])] == [(3, 30, 40)] * 2
    assert ds.__getitems__([]) == []


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_batch_is_one_tensor(tmp_path: Path, threads: int) -> None:
    given = files(12)
    packed(tmp_path / "s", given, shard_bytes=1)
    ds = cw.open(tmp_path / "s", threads=threads)
    batch = ds[[7, 0, 11, 0]]
    assert torch.equal(batch["image"], torch.stack([decode(given[n]) for n in (7, 0, 11, 0)]))
    assert batch["label"].tolist() == [7, 0, 11, 0]
    (images,) = ds.select("image")[[2]]
    assert torch.equal(images[0], decode(given[2]))


def test_images_of_several_sizes_are_a_list(tmp_path: Path) -> None:
    given = [*files(2), *files(1, 20, 50)]
    images = packed(tmp_path / "s", given)[[2, 0, 1]]["image"]
    assert isinstance(images, list)
    assert [tuple(image.shape) for image in images] == [(3, 50, 20), (3, 30, 40), (3, 30, 40)]
    assert torch.equal(images[0], decode(given[2]))


def test_a_turned_photograph_has_the_shape_that_is_seen(tmp_path: Path) -> None:
    given = [written(picture("RGB", 40, 30, n), "JPEG", exif=exif(n)) for n in range(1, 9)]
    ds = packed(tmp_path / "s", given)
    for number, data in enumerate(given):
        assert torch.equal(ds[number]["image"], decode(data))
    assert torch.equal(ds[[4, 5, 6, 7]]["image"], torch.stack([decode(data) for data in given[4:]]))


def test_samples_without_an_image(tmp_path: Path) -> None:
    given = files(4)
    with cw.Writer(tmp_path / "s", fields=KEPT) as writer:
        writer.extend([{"image": given[0], "n": 0}, {"image": None, "n": 1}, {"n": 2}, {"image": given[3], "n": 3}])
    ds = cw.open(tmp_path / "s")
    assert ds[1] == {"image": None, "n": 1}
    assert ds[2] == {"n": 2}
    batch = ds[[0, 1, 2, 3]]["image"]
    assert [one is None for one in batch] == [False, True, True, False]
    assert torch.equal(batch[3], decode(given[3]))
    assert ds[[1, 1]]["image"] in (None, [None, None])


def test_the_bytes_are_stored_as_they_came(tmp_path: Path) -> None:
    given = files(4)
    packed(tmp_path / "s", given)
    entry = json.loads((tmp_path / "s" / "store.json").read_text())["body"]["fields"][0]
    assert (entry["goal"], entry["keep_encoded"]) == ("raw", True)
    # A reader that knows nothing of images, such as the plain one of the docs, sees bytes.
    assert [sample["image"] for sample in plain.Store(tmp_path / "s")] == given
    stored = sum(path.stat().st_size for path in (tmp_path / "s").glob("*.cws"))
    assert stored < sum(map(len, given)) + 4096


def test_a_writer_that_goes_on_knows_it(tmp_path: Path) -> None:
    given = files(3)
    packed(tmp_path / "s", given[:1])
    with cw.Writer(tmp_path / "s", mode="append") as writer:
        writer.append({"image": given[1], "label": 1})
        with pytest.raises(UsageError, match="keeps encoded images, but what came is none"):
            writer.append({"image": b"no image", "label": 1})
    assert torch.equal(cw.open(tmp_path / "s")[1]["image"], decode(given[1]))
    with pytest.raises(UsageError, match="keep_encoded of field 'label'"):
        cw.Writer(tmp_path / "s", mode="append", fields={"label": cw.Field(keep_encoded=True)})


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s", fields=KEPT) as writer:
        with pytest.raises(UsageError, match=r"field 'image' keeps encoded images, .* none of jpeg"):
            writer.append({"image": b"hello, this is text"})
        with pytest.raises(UsageError, match=r"takes the bytes of an image file, but samples have tensor of uint8"):
            writer.append({"image": torch.zeros(3, 4, 4, dtype=torch.uint8)})
        bomb = bytearray(files(2)[1])
        bomb[16:24] = b"\0\1\0\0" * 2
        with pytest.raises(UsageError, match="4,294,967,296 pixels"):
            writer.append({"image": bytes(bomb)})
        writer.append({"image": files(1)[0]})
    assert len(cw.open(tmp_path / "s")) == 1


def test_a_broken_image_names_its_sample(tmp_path: Path) -> None:
    given = files(8)
    given[5] = given[5][: len(given[5]) // 2]  # its header is good
    ds = packed(tmp_path / "s", given)
    for threads in (1, 3):
        reading = cw.open(tmp_path / "s", threads=threads)
        with pytest.raises(
            FormatError, match=r"sample 5 .*field 'image': the png image of \d+ bytes cannot be decoded"
        ):
            reading[list(range(8))]
    assert torch.equal(ds[6]["image"], decode(given[6]))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"goal": "small"}, "goal='small'"),
        ({"store_as": "float16"}, "store_as='float16'"),
        ({"varies": True}, "varies=True"),
        ({"classes": ["a"]}, "classes="),
    ],
)
def test_nothing_else_can_be_asked_of_it(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"keep_encoded=True .*{named}"):
        cw.Field(keep_encoded=True, **options)
    assert cw.Field(keep_encoded=True, goal="raw").keep_encoded


def test_it_is_yes_or_no() -> None:
    with pytest.raises(UsageError, match="keep_encoded must be True or False, got 'yes'"):
        cw.Field(keep_encoded="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "image", "keep_encoded": 1}, "true or false"),
        ({"name": "label", "keep_encoded": True}, "holds scalar"),
    ],
)
def test_a_manifest_that_lies_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    packed(tmp_path / "s", files(1))
    body = json.loads((tmp_path / "s" / "store.json").read_text())["body"]
    for field in body["fields"]:
        if field["name"] == change["name"]:
            field |= change
    (tmp_path / "s" / "store.json").write_bytes(store_json(body))
    with pytest.raises(FormatError, match=message):
        cw.open(tmp_path / "s")


def test_stores_are_read_as_one_only_if_both_hold_images(tmp_path: Path) -> None:
    given = files(2)
    a, b = packed(tmp_path / "a", given), packed(tmp_path / "b", given[::-1])
    both = cw.concat([a, b])
    assert torch.equal(both[[0, 3]]["image"][1], decode(given[0]))
    with cw.Writer(tmp_path / "c") as writer:
        writer.append({"image": given[0], "label": 0})
    assert cw.open(tmp_path / "c")[0]["image"] == given[0]
    with pytest.raises(UsageError, match=r"encoded images in .*/a, but plain bytes in .*/c"):
        cw.concat([a, cw.open(tmp_path / "c")])


def test_it_pickles_and_serves_a_data_loader(tmp_path: Path) -> None:
    given = files(6)
    ds = packed(tmp_path / "s", given)
    assert torch.equal(pickle.loads(pickle.dumps(ds))[2]["image"], decode(given[2]))
    ds[[0, 1, 2]]  # threads of this process must not be waited for in a forked one
    for workers in (0, 2):
        found = torch.cat([batch["image"] for batch in DataLoader(ds, batch_size=2, num_workers=workers)])
        assert torch.equal(found, torch.stack(list(map(decode, given))))


def test_threads_read_at_the_same_time(tmp_path: Path) -> None:
    given = files(8)
    ds = packed(tmp_path / "s", given)
    expected = torch.stack(list(map(decode, given)))
    found: list[bool] = []
    readers = [
        threading.Thread(target=lambda: found.append(torch.equal(ds[list(range(8))]["image"], expected)))
        for _ in range(6)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert found == [True] * 6


def test_verify_salvage_and_inspect_know_it(tmp_path: Path) -> None:
    given = files(3)
    ds = packed(tmp_path / "s", given)
    assert cw.verify(tmp_path / "s").ok
    assert "encoded image" in str(ds.inspect())
    cw.salvage(tmp_path / "s", tmp_path / "t")
    assert torch.equal(cw.open(tmp_path / "t")[1]["image"], decode(given[1]))
