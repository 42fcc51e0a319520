"""Folders of images: classes, samples, an ordinary user's mess, and hostile files."""

import os
import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from PIL import Image

from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.sources import Source, SourceOptions, find
from tests.images.pictures import animated, picture, scenes
from tests.sources import photos


def samples(source: Source) -> list[Any]:
    reader = cloudpickle.loads(cloudpickle.dumps(source.reader()))
    return [reader(pickle.loads(pickle.dumps(given.handle))) for given in source.inputs()]


class TestClassFolders:
    def test_samples_have_pixels_number_and_path(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "cat/1.png", "cat/deeper/2.png", "dog/3.png")
        source = find(tmp_path)
        assert source.count == 3
        assert source.classes == {"label": ["cat", "dog"]}
        for seed, (sample, path, label) in enumerate(
            zip(samples(source), ("cat/1.png", "cat/deeper/2.png", "dog/3.png"), (0, 0, 1), strict=True)
        ):
            assert list(sample) == ["image", "label", "path"]
            assert sample["image"].dtype == torch.uint8
            assert np.array_equal(sample["image"].permute(1, 2, 0), photos.pixels(seed))
            assert (sample["label"], sample["path"]) == (label, path)

    def test_inputs_know_name_size_and_date(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "cat/1.png", "dog/3.png")
        (given,) = find(tmp_path).inputs(1)
        status = (tmp_path / "dog/3.png").stat()
        assert (given.name, given.size, given.stamp) == ("dog/3.png", status.st_size, status.st_mtime_ns)

    def test_an_empty_class_keeps_its_number_and_is_told_of(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "ant/1.png", "cat/2.png")
        (tmp_path / "bee").mkdir()
        source = find(tmp_path)
        assert source.classes == {"label": ["ant", "bee", "cat"]}
        assert [given.handle[1] for given in source.inputs()] == [0, 2]
        assert source.notes == ["classes without images: bee"]

    def test_a_folder_of_other_things_is_no_class(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "cat/1.png")
        (tmp_path / "annotations").mkdir()
        (tmp_path / "annotations" / "1.xml").write_text("<x/>")
        source = find(tmp_path)
        assert source.classes == {"label": ["cat"]}
        assert source.notes == ["left out, of another kind: annotations/1.xml"]

    def test_an_empty_class_changes_the_fingerprint(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "cat/1.png")
        before = find(tmp_path).fingerprint()
        (tmp_path / "ant").mkdir()
        assert find(tmp_path).fingerprint() != before

    def test_splits_are_told_from_classes(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "train/cat/1.png", "val/cat/2.png")
        assert find(tmp_path).notes == ["the classes are train, val: if those are splits, pack each of them by itself"]
        assert find(tmp_path / "train").notes == []

    def test_class_folders_whose_names_are_no_text(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "cat/1.png")
        folder = os.fsencode(tmp_path) + b"/\xff"
        os.mkdir(folder)  # noqa: PTH102 - of bytes
        (tmp_path / "cat/1.png").rename(os.fsdecode(folder) + "/1.png")
        source = find(tmp_path)
        assert source.classes == {"label": ["cat", "\\xff"]}
        (given,) = source.inputs()
        assert given.name is not None
        assert os.fsencode(given.name) == b"\xff/1.png"
        assert samples(source)[0]["path"] == given.name


class TestWithoutClasses:
    def test_a_flat_folder_has_no_labels(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "1.png", "2.png")
        source = find(tmp_path)
        assert source.classes == {}
        assert [list(sample) for sample in samples(source)] == [["image", "path"]] * 2

    def test_images_beside_class_folders_are_refused_with_the_ways_out(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "cat/1.png", "preview.png")
        with pytest.raises(UsageError, match=r"1 images of no class \(preview.png ...\) beside 1 folders.*unlabelled"):
            find(tmp_path)
        assert [list(sample) for sample in samples(find(tmp_path, "unlabelled"))] == [["image", "path"]] * 2


class TestMess:
    def test_endings_in_capitals_wrong_and_missing(self, tmp_path: Path) -> None:
        for name, kind in (("1.JPG", "JPEG"), ("2.png", "JPEG"), ("3", "WEBP"), ("4.data", "BMP"), ("5.Jpeg", "PNG")):
            (tmp_path / name).write_bytes(photos.encoded(1, kind))
        for name in (".DS_Store", "Thumbs.db", "readme.txt", "notes"):
            (tmp_path / name).write_text("text")
        source = find(tmp_path)
        assert [sample["path"] for sample in samples(source)] == ["1.JPG", "2.png", "3", "4.data", "5.Jpeg"]
        assert all(sample["image"].shape == (3, 6, 7) for sample in samples(source))
        (note,) = source.notes
        assert "readme.txt" in note
        assert "notes" in note

    @pytest.mark.parametrize(
        ("content", "message"),
        [(b"", "cat/2.jpg: "), (b"GIF89a", "cat/2.jpg: "), (b"no image at all", "cat/2.jpg: ")],
    )
    def test_what_is_no_image_is_named_when_it_is_read(self, tmp_path: Path, content: bytes, message: str) -> None:
        photos.write(tmp_path, "cat/1.jpg", "cat/3.jpg")
        (tmp_path / "cat/2.jpg").write_bytes(content)
        source = find(tmp_path)
        reader = source.reader()
        first, second, third = source.inputs()
        with pytest.raises(FormatError, match=message):
            reader(second.handle)
        assert reader(first.handle)["image"].shape == reader(third.handle)["image"].shape

    def test_an_image_that_was_cut_short_is_named(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "1.png")
        (tmp_path / "1.png").write_bytes(photos.encoded(1)[:-40])
        source = find(tmp_path)
        with pytest.raises(FormatError, match=r"1\.png: "):
            samples(source)

    def test_a_file_that_vanished_is_named(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "1.png")
        source = find(tmp_path)
        (tmp_path / "1.png").unlink()
        with pytest.raises(StorageError, match=r"1\.png: it cannot be read"):
            samples(source)

    def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "1.png")
        source = find(tmp_path)
        (tmp_path / "1.png").unlink()
        os.mkfifo(tmp_path / "1.png")
        with pytest.raises(FormatError, match=r"1\.png: it is no plain file"):
            samples(source)

    def test_a_folder_without_images_says_what_it_holds(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("text")
        with pytest.raises(UsageError, match=r"holds no images: found 1 \*\.txt"):
            find(tmp_path, "images")


class TestOptions:
    def test_pil(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "1.png")
        (sample,) = samples(find(tmp_path, options=SourceOptions(decode="pil")))
        assert isinstance(sample["image"], Image.Image)
        assert np.array_equal(np.asarray(sample["image"]), photos.pixels(0))

    def test_pil_in_the_mode_of_the_file(self, tmp_path: Path) -> None:
        for mode in ("L", "LA", "P", "1", "I;16", "RGBA"):
            picture(mode).save(tmp_path / f"{mode.replace(';', '')}.png")
        found = {sample["path"]: sample["image"] for sample in samples(find(tmp_path, options=SourceOptions("pil")))}
        assert {path: image.mode for path, image in found.items()} == {
            "1.png": "1", "I16.png": "I;16", "L.png": "L", "LA.png": "LA", "P.png": "P", "RGBA.png": "RGBA"
        }  # fmt: skip
        assert np.array_equal(np.asarray(found["P.png"]), np.asarray(picture("P")))

    def test_all_frames(self, tmp_path: Path) -> None:
        (tmp_path / "1.gif").write_bytes(animated("GIF", scenes(3)))
        photos.write(tmp_path, "2.png")
        source = find(tmp_path, options=SourceOptions(frames="all"))
        assert [sample["image"].shape for sample in samples(source)] == [(3, 3, 30, 40), (1, 3, 6, 7)]
        assert source.describe()["frames"] == "all"
        assert "frames" not in find(tmp_path).describe()

    def test_a_reader_tells_of_frames_that_it_left_out(self, tmp_path: Path) -> None:
        (tmp_path / "1.gif").write_bytes(animated("GIF", scenes(3)))
        photos.write(tmp_path, "2.png")
        for options, expected in ((SourceOptions(), [True, False]), (SourceOptions(frames="all"), [False, False])):
            source = find(tmp_path, options=options)
            read: Any = source.reader()
            assert [(read(one.handle), read.more_frames)[1] for one in source.inputs()] == expected

    @pytest.mark.parametrize("options", [{"decode": "none"}, {"keep_encoded": frozenset({"image"})}])
    def test_bytes(self, tmp_path: Path, options: dict[str, Any]) -> None:
        photos.write(tmp_path, "1.png")
        source = find(tmp_path, options=SourceOptions(**options))
        assert samples(source)[0]["image"] == photos.encoded(0)
        assert source.describe()["decode"] == "none"

    def test_what_is_kept_is_an_image_all_the_same(self, tmp_path: Path) -> None:
        (tmp_path / "1.png").write_bytes(b"text")
        source = find(tmp_path, "images", SourceOptions(keep_encoded=frozenset({"image"})))
        with pytest.raises(FormatError, match=r"1\.png: "):
            samples(source)

    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP"])
    @pytest.mark.parametrize("size", [(40, 30), (160, 320)])
    def test_what_is_kept_is_whole(self, tmp_path: Path, kind: str, size: tuple[int, int]) -> None:
        """Else it would be found in training, by a batch that fails."""
        name = f"cat/1.{kind.lower()}"
        (tmp_path / "cat").mkdir()
        Image.fromarray(photos.pixels(0, *size)).save(tmp_path / name, kind)
        source = find(tmp_path, "images", SourceOptions(keep_encoded=frozenset({"image"})))
        data = (tmp_path / name).read_bytes()
        assert samples(source)[0]["image"] == data
        for kept in (len(data) - len(data) // 4, len(data) // 2, 40):
            (tmp_path / name).write_bytes(data[:kept])
            with pytest.raises(FormatError, match=rf"^cat/1\.{kind.lower()}: "):
                samples(source)

    def test_what_is_kept_is_no_larger_than_allowed(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "1.png")
        options = SourceOptions(max_pixels=41, keep_encoded=frozenset({"image"}))
        with pytest.raises(FormatError, match=r"^1\.png: .* 7 x 6, 42 pixels; 41 are allowed"):
            samples(find(tmp_path, options=options))

    def test_links_out_of_the_folder_if_they_are_allowed(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "elsewhere/1.png", "in/cat/2.png")
        (tmp_path / "in" / "cat" / "3.png").symlink_to(tmp_path / "elsewhere" / "1.png")
        with pytest.raises(FormatError, match=r"^cat/3\.png: it is a link .*outside of .*follow_links=True"):
            samples(find(tmp_path / "in"))
        first, second = samples(find(tmp_path / "in", options=SourceOptions(follow_links=True)))
        assert (first["path"], second["path"]) == ("cat/2.png", "cat/3.png")
        assert np.array_equal(second["image"].permute(1, 2, 0), photos.pixels(0))

    def test_links_that_cannot_be_read_are_inputs_and_no_classes(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "cat/1.png", "dog/2.png")
        (tmp_path / "again").symlink_to(".")
        (tmp_path / "cat" / "3.png").symlink_to("nothing")
        (tmp_path / "eel").mkdir()
        (tmp_path / "eel" / "4.png").symlink_to("4.png")
        source = find(tmp_path)
        assert source.classes == {"label": ["cat", "dog", "eel"]}
        assert source.notes == ["classes without images: eel"]
        found = {given.name: (given.handle[1:], given.size is None) for given in source.inputs()}
        wrong = {"again": ((), True), "cat/3.png": ((0,), True), "eel/4.png": ((2,), True)}
        assert found == {**wrong, "cat/1.png": ((0,), False), "dog/2.png": ((1,), False)}
        for given in source.inputs():
            if given.size is None:
                with pytest.raises(FormatError, match=rf"^{given.name}: it is a link to"):
                    source.reader()(given.handle)

    def test_a_file_that_becomes_a_link_is_not_followed(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "in/1.png", "secret.png")
        source = find(tmp_path / "in")
        (tmp_path / "in" / "1.png").unlink()
        (tmp_path / "in" / "1.png").symlink_to("../secret.png")
        with pytest.raises(FormatError, match="outside"):
            samples(source)

    def test_a_bomb_is_refused_by_its_header(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "1.png")
        with pytest.raises(FormatError, match=r"1\.png: .* 7 x 6, 42 pixels; 41 are allowed"):
            samples(find(tmp_path, options=SourceOptions(max_pixels=41)))
        assert len(samples(find(tmp_path, options=SourceOptions(max_pixels=42)))) == 1

    def test_a_file_larger_than_any_image_of_so_many_pixels_is_not_read(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "1.png")
        with (tmp_path / "1.png").open("r+b") as file:
            file.truncate(65 << 20)
        with pytest.raises(FormatError, match="it has 68,157,440 bytes, and at most"):
            samples(find(tmp_path, options=SourceOptions(max_pixels=1000)))

    def test_jpegs_are_decoded_scaled_down(self, tmp_path: Path) -> None:
        Image.fromarray(photos.pixels(0, 160, 320)).save(tmp_path / "1.jpg")
        (sample,) = samples(find(tmp_path, options=SourceOptions(decode_size=40)))
        assert sample["image"].shape == (3, 40, 80)

    def test_describe_tells_what_pixels_depend_on(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "1.png")
        told = find(tmp_path, options=SourceOptions(decode_size=40)).describe()
        assert told["path"] == str(tmp_path.resolve())
        assert told["decode_size"] == 40
        assert set(told["decoders"]) >= {"jpeg", "png", "webp"}

    @pytest.mark.parametrize(
        "wrong", [{"decode": "numpy"}, {"decode_size": 0}, {"decode_size": True}, {"max_pixels": None}, {"frames": 1}]
    )
    def test_wrong_options(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(UsageError, match=next(iter(wrong))):
            SourceOptions(**wrong)
