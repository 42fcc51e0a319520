"""The acts of the demo: crops, images, comparing bits, the store, the training, views."""

import io
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cordwood.cli import main
from cordwood.demo.acts.kept import KeptSamples, kept_files, same_bits
from cordwood.demo.acts.pack import kept_store, pack_folder, time_batches
from cordwood.demo.acts.photographs import choose_crop, describe, make_image_folder
from cordwood.demo.acts.prepare import prepare_batch
from cordwood.demo.acts.training import (
    BATCH,
    EPOCHS,
    Feed,
    ImageFiles,
    Images,
    from_files,
    from_store,
    shuffled,
    train_nets,
    warm_up,
)
from cordwood.demo.acts.views import ELEMENTS, is_shared, same_views, save_views
from cordwood.demo.acts.ways import read_pixels, reprepare, write_pixels
from cordwood.packing.report.progress import TerminalBar
from cordwood.store import Dataset as StoreDataset
from cordwood.store import open as open_store


def no_progress(step: str, done: int, total: int) -> None:
    """Nobody watches."""


class Few:
    """A folder with a few images, what these become, and the store of that; nobody waits for workers to start."""

    count = 13

    def __init__(self, folder: Path) -> None:
        self.images, self.store = folder / "images", folder / "photographs.cordwood"
        self.samples = prepare_batch(make_image_folder(self.images, self.count, progress=no_progress))
        self.packing = pack_folder(self.images, self.store, no_progress, workers=0)

    def kept(self) -> KeptSamples:
        return kept_store(self.samples, self.packing.packed)

    def open(self) -> StoreDataset:
        return open_store(self.store)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Few:
    return Few(tmp_path_factory.mktemp("few"))


@given(st.integers(64, 3000), st.integers(64, 3000), st.integers(0, 2**32))
def test_a_crop_lies_inside_the_photograph(width: int, height: int, seed: int) -> None:
    left, upper, right, lower = choose_crop(np.random.default_rng(seed), width, height).box
    assert 0 <= left < right <= width
    assert 0 <= upper < lower <= height
    assert 0.7 < (right - left) / (lower - upper) < 1.4


def test_the_image_folder_is_varied_and_the_same_every_time(tmp_path: Path) -> None:
    first = make_image_folder(tmp_path / "first", 22, progress=no_progress)
    second = make_image_folder(tmp_path / "second", 22, progress=no_progress)
    contents = [path.read_bytes() for path in first]
    assert contents == [path.read_bytes() for path in second]
    assert len(set(contents)) == 22
    assert len({path.parent.name for path in first}) == 11
    assert first == sorted(first)
    for path in first:
        with Image.open(path) as image:
            assert min(image.size) == 256


def test_a_folder_is_described_with_a_picture_of_each_class(tmp_path: Path) -> None:
    paths = make_image_folder(tmp_path, 15, progress=no_progress)
    described = describe(tmp_path, paths)
    assert (described.path, described.images) == (tmp_path, 15)
    assert described.nbytes == sum(path.stat().st_size for path in tmp_path.rglob("*.jpg"))
    assert [photograph.name for photograph in described.photographs] == sorted(path.name for path in tmp_path.iterdir())
    for photograph in described.photographs:
        with Image.open(io.BytesIO(photograph.jpeg)) as picture:
            assert (picture.format, picture.size) == ("JPEG", (160, 160))


def test_samples_are_slices_of_their_batch(tmp_path: Path) -> None:
    paths = make_image_folder(tmp_path, 3, progress=no_progress)
    samples = prepare_batch(paths)
    assert {tuple(sample.tensor.shape) for sample in samples} == {(3, 224, 224)}
    assert len({sample.tensor.untyped_storage().data_ptr() for sample in samples}) == 1
    red = torch.from_numpy(samples[1].pixels[:, :, 0].copy())
    assert torch.equal(samples[1].tensor[0], red.float().div(255).sub(0.485).div(0.229))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]), True),
        (torch.tensor([0.0]), torch.tensor([-0.0]), False),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), True),
        (torch.tensor([1.0]), torch.tensor([[1.0]]), False),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
    ],
)
def test_same_bits_means_every_bit(one: torch.Tensor, other: torch.Tensor, same: bool) -> None:
    assert same_bits(one, other) is same


def test_views_are_cut_out_and_still_shared(tmp_path: Path) -> None:
    views = save_views(tmp_path / "views", no_progress)
    rows = views.rows
    assert (views.elements, views.step, views.behind) == (1_000, 500, 1_000_000)
    assert all(row.is_exact for row in rows)
    plain, clones, *ours = rows
    assert not plain.is_ours
    assert not clones.is_ours
    assert [row.was_trimmed for row in ours] == [False, False, True]
    needed = ELEMENTS * torch.float32.itemsize
    assert plain.is_shared
    assert plain.one_view > 900 * needed
    assert not clones.is_shared
    assert clones.two_views > 2 * needed
    assert len(ours) == 3
    for row in ours:
        assert row.is_shared, row.title
        assert row.is_ours, row.title
        assert row.one_view < needed + 1600, row.title
        assert row.two_views < 1.5 * needed + 1600, row.title
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "views").iterdir()}
    assert sorted(sizes.values()) == sorted(size for row in rows for size in (row.one_view, row.two_views))


def test_what_is_shared_is_found_out_by_writing() -> None:
    behind = torch.zeros(2000)
    assert is_shared([behind[:1000], behind[500:1500]])
    assert not is_shared([behind[:1000], behind[500:1500].clone()])
    assert not same_views([torch.zeros(2)], [torch.tensor([0.0, -0.0])])


def test_the_store_has_the_images_with_labels_and_sources(few: Few) -> None:
    kept, ds = few.kept(), few.open()
    assert kept.is_exact()
    assert kept.is_ours
    assert kept.write_seconds == few.packing.packed.seconds > 0
    assert kept.total_bytes == sum(file.stat().st_size for file in few.store.rglob("*") if file.is_file())
    assert ds.classes == sorted({sample.source.parent.name for sample in few.samples})
    for sample, stored in zip(few.samples, ds, strict=True):
        assert list(stored) == ["image", "label", "path"]
        assert ds.classes[stored["label"]] == sample.source.parent.name
        assert few.images / stored["path"] == sample.source


def test_the_command_that_is_told_makes_that_store(few: Few, capsys: pytest.CaptureFixture[str]) -> None:
    program, *words = shlex.split(few.packing.command)
    assert program == "cordwood"
    assert main([*words, "--workers", "0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["samples"] == few.count
    assert told["resumed_samples"] == few.count


def test_packing_is_watched_unless_it_shows_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_image_folder(tmp_path / "images", 2, progress=no_progress)
    seen: list[tuple[str, int, int]] = []
    pack_folder(tmp_path / "images", tmp_path / "one", lambda *step: seen.append(step), workers=0)
    assert seen == [("packing", 1, 2), ("packing", 2, 2)]
    seen.clear()
    bars: list[object] = []

    def display_here(stream: TextIO) -> TerminalBar:
        bars.append(stream)
        return TerminalBar(stream)

    monkeypatch.setattr("cordwood.packing.report.progress.display_here", display_here)
    pack_folder(tmp_path / "images", tmp_path / "two", lambda *step: seen.append(step), workers=0, bar=True)
    assert seen == []
    assert bars == [sys.stderr]


def test_batches_are_compared_with_what_went_in(few: Few, tmp_path: Path) -> None:
    samples, count = few.samples, few.count
    again = kept_files("again", samples, [sample.source for sample in samples], reprepare)
    pixels = [tmp_path / f"{number}.npy" for number in range(count)]
    for number, path in enumerate(pixels):
        write_pixels(samples[(number + 1) % count], path)
    others = kept_files("others", samples, pixels, read_pixels, write_seconds=6.5)
    store = few.kept()
    rows = time_batches([again, others], store, few.store, no_progress)
    assert [(row.title, row.batch, row.is_exact, row.is_ours) for row in rows] == [
        ("again", count, True, False),
        ("others", count, False, False),
        ("cw.pack, a store, one thread", count, True, True),
        ("cw.pack, a store, all cores", count, True, True),
    ]
    assert (rows[0].write_seconds, rows[1].write_seconds) == (None, 0.5)


def test_files_and_store_feed_the_same_batches(few: Few) -> None:
    ds, count = few.open(), few.count
    files = ImageFiles([sample.source for sample in few.samples], ds.column("label").tolist(), reprepare)
    order = shuffled(count)
    assert sorted(order) == sorted(list(range(count)) * EPOCHS)
    assert order[:count] != order[count : 2 * count]
    feeds = [from_files("files", files, order), from_store(ds, order)]
    pairs = list(zip(*[feed.batches() for feed in feeds], strict=True))
    assert [len(labels) for (_, labels), _ in pairs] == [BATCH] * 2 + [2]
    for (images, labels), (stored, stored_labels) in pairs:
        assert same_bits(images, stored)
        assert same_bits(labels, stored_labels)
    assert torch.cat([labels for (_, labels), _ in pairs]).tolist() == [files.labels[number] for number in order]
    assert [feed.steps for feed in feeds] == [len(pairs)] * 2
    assert [feed.note() == "" for feed in feeds] == [True, False]


def test_a_tenth_of_the_steps_is_warm_up_and_at_least_the_first() -> None:
    assert [warm_up(steps) for steps in (1, 9, 10, 19, 20, 95)] == [1, 1, 1, 1, 2, 9]


def test_nets_that_saw_the_same_are_the_same(few: Few) -> None:
    ds, order = few.open(), shuffled(few.count)

    def mirrored() -> Iterator[Images]:
        for images, labels in from_store(ds, order).batches():
            yield images.flip(3), labels

    feeds = [from_store(ds, order), from_store(ds, order), Feed("mirrored", 3, mirrored)]
    threads = torch.get_num_threads()
    seen: list[tuple[str, int, int]] = []
    rows = train_nets(feeds, 11, lambda *step: seen.append(step))
    assert [row.is_same for row in rows] == [True, True, False]
    losses = [[step.loss for step in row.steps] for row in rows]
    assert losses[0] == losses[1] != losses[2]
    assert all(0 <= row.waited < 1 and row.images_a_second > 0 and row.step_seconds > 0 for row in rows)
    images = few.count * EPOCHS - BATCH  # the first step counts for nothing
    assert [(row.images, len(row.steps), row.is_ours) for row in rows] == [
        (images, 2, True),
        (images, 2, True),
        (images, 2, False),
    ]
    assert seen == [(f"training: {feed.title}", step, 3) for feed in feeds for step in range(1, 4)]
    assert torch.get_num_threads() == threads
