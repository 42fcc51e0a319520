"""The parts of the demo: views, crops, images, comparing bits, the store, the training, the doctor, the tables."""

import json
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader

from cordwood.cli import main
from cordwood.demo import doctored
from cordwood.demo.kept import Kept, kept_files, same_bits
from cordwood.demo.packed import command, pack_folder, time_batches
from cordwood.demo.photographs import choose_crop, make_image_folder
from cordwood.demo.prepare import Sample, prepare_batch
from cordwood.demo.report import BatchRow, Doctored, Report, Row, Training, TrainingRow, ViewRow, format_report
from cordwood.demo.training import BATCH, EPOCHS, Feed, ImageFiles, Images, from_files, from_store, shuffled, train_nets
from cordwood.demo.views import ELEMENTS, is_shared, same_views, save_views
from cordwood.demo.ways import read_pixels, reprepare, write_pixels
from cordwood.doctor.evidence import LoaderSeen
from cordwood.doctor.findings import Place
from cordwood.doctor.packchange import change_for
from cordwood.doctor.report import Report as DoctorsReport
from cordwood.doctor.sameness import digest
from cordwood.errors import DoctorError
from cordwood.store import Dataset as StoreDataset
from cordwood.store import open as open_store


def no_progress(step: str, done: int, total: int) -> None:
    """Nobody watches."""


def packed_images(folder: Path, count: int) -> tuple[list[Sample], Kept]:
    """An image folder, what it becomes, and the store of that; nobody waits for workers to start."""
    samples = prepare_batch(make_image_folder(folder / "images", count, progress=no_progress))
    return samples, pack_folder(folder / "images", samples, folder / "photographs.cordwood", no_progress, workers=0)


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
    rows = save_views(tmp_path / "views", no_progress)
    assert all(row.exact for row in rows)
    plain, clones, *ours = rows
    needed = ELEMENTS * torch.float32.itemsize
    assert plain.shared
    assert plain.one_view > 900 * needed
    assert not clones.shared
    assert clones.two_views > 2 * needed
    assert len(ours) == 3
    for row in ours:
        assert row.shared, row.title
        assert row.one_view < needed + 1200, row.title
        assert row.two_views < 1.5 * needed + 1200, row.title
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "views").iterdir()}
    assert sorted(sizes.values()) == sorted(size for row in rows for size in (row.one_view, row.two_views))


def test_what_is_shared_is_found_out_by_writing() -> None:
    behind = torch.zeros(2000)
    assert is_shared([behind[:1000], behind[500:1500]])
    assert not is_shared([behind[:1000], behind[500:1500].clone()])
    assert not same_views([torch.zeros(2)], [torch.tensor([0.0, -0.0])])


def test_the_store_has_the_images_with_labels_and_sources(tmp_path: Path) -> None:
    samples, kept = packed_images(tmp_path, 13)
    path = tmp_path / "photographs.cordwood"
    assert kept.is_exact()
    assert kept.write_seconds is not None
    assert kept.total_bytes == sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    ds = open_store(path)
    assert ds.classes == sorted({sample.source.parent.name for sample in samples})
    for sample, stored in zip(samples, ds, strict=True):
        assert list(stored) == ["image", "label", "path"]
        assert ds.classes[stored["label"]] == sample.source.parent.name
        assert tmp_path / "images" / stored["path"] == sample.source


def test_the_command_that_is_told_makes_that_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed_images(tmp_path, 3)
    program, *words = shlex.split(command(tmp_path / "images", tmp_path / "photographs.cordwood"))
    assert program == "cordwood"
    assert main([*words, "--workers", "0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["samples"] == 3
    assert told["resumed_samples"] == 3


def test_batches_are_compared_with_what_went_in(tmp_path: Path) -> None:
    samples, store = packed_images(tmp_path, 12)
    again = kept_files("again", samples, [sample.source for sample in samples], reprepare)
    pixels = [tmp_path / f"{number}.npy" for number in range(12)]
    for number, path in enumerate(pixels):
        write_pixels(samples[(number + 1) % 12], path)
    others = kept_files("others", samples, pixels, read_pixels, write_seconds=6.0)
    rows = time_batches([again, others], store, tmp_path / "photographs.cordwood", no_progress)
    assert [(row.title, row.batch, row.exact) for row in rows] == [
        ("again", 12, True),
        ("others", 12, False),
        (f"{store.title}, one thread", 12, True),
        (f"{store.title}, all cores", 12, True),
    ]
    assert (rows[0].write_seconds, rows[1].write_seconds) == (None, 0.5)


def few_images(folder: Path, count: int) -> tuple[ImageFiles, StoreDataset]:
    """The same images as JPEG files and as a store of what they become."""
    samples, _ = packed_images(folder, count)
    ds = open_store(folder / "photographs.cordwood")
    return ImageFiles([sample.source for sample in samples], ds.column("label").tolist(), reprepare), ds


def test_files_and_store_feed_the_same_batches(tmp_path: Path) -> None:
    files, ds = few_images(tmp_path, 35)
    order = shuffled(35)
    assert sorted(order) == sorted(list(range(35)) * EPOCHS)
    assert order[:35] != order[35:70]
    feeds = [from_files("files", files, order), from_store(ds, order)]
    pairs = list(zip(*[feed.batches() for feed in feeds], strict=True))
    assert [len(labels) for (_, labels), _ in pairs] == [BATCH] * 10 + [30]
    for (images, labels), (stored, stored_labels) in pairs:
        assert same_bits(images, stored)
        assert same_bits(labels, stored_labels)
    assert torch.cat([labels for (_, labels), _ in pairs]).tolist() == [files.labels[number] for number in order]
    assert [feed.steps for feed in feeds] == [len(pairs)] * 2
    assert [feed.note() == "" for feed in feeds] == [True, False]


def test_nets_that_saw_the_same_are_the_same(tmp_path: Path) -> None:
    _, ds = few_images(tmp_path, 16)
    order = shuffled(16)

    def mirrored() -> Iterator[Images]:
        for images, labels in from_store(ds, order).batches():
            yield images.flip(3), labels

    feeds = [from_store(ds, order), from_store(ds, order), Feed("mirrored", 5, mirrored)]
    threads = torch.get_num_threads()
    seen: list[tuple[str, int, int]] = []
    rows = train_nets(feeds, 11, lambda *step: seen.append(step))
    assert [row.same for row in rows] == [True, True, False]
    assert rows[0].loss == rows[1].loss != rows[2].loss
    assert all(0 <= row.waited < 1 and row.images_a_second > 0 and row.step_seconds > 0 for row in rows)
    assert seen == [(f"training: {feed.title}", step, 5) for feed in feeds for step in range(1, 6)]
    assert torch.get_num_threads() == threads


def finding_in(folder: Path) -> dict[str, object]:
    """What the doctor says of the script there, but for the figures: those would depend on the clock."""
    script = folder / doctored.NAME
    loader = DataLoader(runpy.run_path(str(script))["Photographs"](), doctored.BATCH, shuffle=True)
    lines = script.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "DataLoader(dataset" in text)
    seen = LoaderSeen(loader, place=None, made_at=Place(str(script), line))
    change = change_for(seen, [0, 7], [digest(loader.dataset[number]) for number in (0, 7)], seconds=300)
    return {
        "rule": doctored.RULE,
        "title": "preprocessing that could be done once",
        "level": "high",
        "file": str(script),
        "line": line,
        "function": "train",
        "source": lines[line - 1].strip(),
        "saves_ms_per_step": 10.0,
        "spread_ms": 0.5,
        "share": 0.5,
        "verified": True,
        "proof": "trial",
        "message": "dataset[i] gives the same samples in every epoch",
        "fix": change.text,
        "details": [],
    }


def test_the_advice_is_followed_to_the_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_image_folder(tmp_path / "images", 20, progress=no_progress)
    folder = tmp_path / "doctor"
    really = doctored.examine
    told: list[dict[str, object]] = []

    def examine(where: Path, name: str, seconds: float) -> tuple[str, DoctorsReport]:
        command, report = really(where, name, 0)  # no trials
        if name == "before":
            monkeypatch.chdir(where)
            told.append(finding_in(where))
            report.findings.insert(0, told[0])
            report.save(where / "before.json")
        return command, report

    monkeypatch.setattr(doctored, "examine", examine)
    seen: list[tuple[str, int, int]] = []
    result = doctored.close_the_loop(folder, lambda *step: seen.append(step))
    assert result.closed
    assert seen == [(doctored.TITLE, done, 4) for done in range(1, 5)]
    # What was run and written is what was printed.
    command, _, where, *lines = str(told[0]["fix"]).splitlines()
    assert result.packing == command == "cordwood pack train:Photographs train.cordwood"
    assert where == f"# {result.where}:" == f"# in train.py, in place of line {told[0]['line']}:"
    assert list(result.lines) == lines
    assert result.finding.startswith(f"{doctored.RULE} at train.py:{told[0]['line']} saves 10.0 ± 0.5 ms/step")
    before, after = ((folder / name).read_text().splitlines() for name in (doctored.UNCHANGED, doctored.NAME))
    place = before.index(f"    {told[0]['source']}")
    assert after == [*before[:place], *[f"    {line}" for line in lines], *before[place + 1 :]]
    assert list(result.removed) == [told[0]["source"]]
    # Both ran to their ends, and were compared.
    reports = [DoctorsReport.load(folder / name).document for name in ("before.json", "after.json")]
    # A step is over when the next batch is asked for, which the last one's is not.
    assert [report["steps"]["count"] for report in reports] == [59, 59]
    assert (folder / "after.html").is_file()
    assert re.match(r"predicted [\d.,]+ ms/step, got ", result.compared[1])
    # The batches are the same, and that is looked at.
    assert result.same
    Image.new("RGB", (300, 260), "teal").save(sorted((tmp_path / "images").glob("*/*.jpg"))[11])
    assert not doctored.same_batches(folder / doctored.UNCHANGED, folder / "train.cordwood")
    sorted((tmp_path / "images").glob("*/*.jpg"))[-1].unlink()
    assert not doctored.same_batches(folder / doctored.UNCHANGED, folder / "train.cordwood")


def test_advice_of_several_lines_is_read_and_applied() -> None:
    fix = "\n".join(
        [
            "# in train.py, in place of lines 2-4:",
            "import cordwood as cw",
            'cw.pack(data, "train-2.cordwood")',
            "if x:",
            '    loader = cw.Loader(cw.open("train-2.cordwood"))',
        ]
    )
    advice = doctored.read_advice(fix)
    assert (advice.command, advice.store) == ("", "train-2.cordwood")
    removed, changed = doctored.apply(advice, "if y:\n    loader = DataLoader(\n        data,\n    )\nend\n")
    assert removed == ("loader = DataLoader(", "    data,", ")")
    assert changed.splitlines() == [
        "if y:",
        "    import cordwood as cw",
        '    cw.pack(data, "train-2.cordwood")',
        "    if x:",
        '        loader = cw.Loader(cw.open("train-2.cordwood"))',
        "end",
    ]
    with pytest.raises(DoctorError, match="does not say which lines"):
        doctored.read_advice("cordwood pack SOURCE train.cordwood")


def test_a_command_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(DoctorError, match=r"exit code 2; it said last:\n(.|\n)*'burn'"):
        doctored.run("cordwood burn", tmp_path)
    with pytest.raises(DoctorError, match="begins with `cordwood`"):
        doctored.run("rm -rf .", tmp_path)


def test_the_tables_are_aligned() -> None:
    views = [ViewRow("torch.save", 4_001_661, 4_001_732, True, True), ViewRow("ours", 846, 891, True, False)]
    rows = [Row("plain", 1000, 0.0025, True), Row("a much longer way", 62.5, 0.01234, False, note="a | b")]
    batches = [BatchRow("files", None, 0.5, 64, True), BatchRow("a store", 0.0025, 0.016, 64, False)]
    training = [
        TrainingRow("files", 700.4, 0.4251, 0.0263, 0.3716142, True),
        TrainingRow("the Loader", 1234.5, 0.0, 0.0259, 0.3716142, False, note="2 threads"),
    ]
    cured = Doctored(
        Path("x y/doctor"),
        "cordwood doctor train.py",
        "80% of each step is waiting for data: 80 ms of 100 ms",
        "cacheable-preprocessing at train.py:9 saves 75 ± 2 ms/step (75%), verified by trial",
        "cordwood pack train:Images train.cordwood",
        "in train.py, in place of lines 9-10",
        ["loader = DataLoader(", "    data)"],
        ["import cordwood as cw", 'loader = cw.Loader(cw.open("train.cordwood"))'],
        "cordwood doctor train.py again",
        "nothing worth changing",
        "cordwood doctor compare",
        ["faster: 100 ms -> 24 ms a step", "predicted 75 ms/step, got 76: within 1%"],
        True,
    )
    text = format_report(
        Report(
            views,
            rows,
            batches,
            Training(training, 10, 32),
            cured,
            "plain",
            40,
            (3, 8, 8),
            [Path("x/plain")],
            Path("x y/s.cordwood"),
            "cordwood pack 'x y/images' s.cordwood",
        )
    )
    assert text.splitlines() == [
        "1. A view of 1,000 of 1,000,000 zeros, and two such views that overlap by half; bytes of the files:",
        "",
        "way to save   one view  two views  same bits  still shared",
        "----------------------------------------------------------",
        "torch.save   4,001,661  4,001,732        yes           yes",
        "ours               846        891        yes            no",
        "",
        "  still shared: a number written through one view after loading is seen through the other",
        "",
        "2. 40 images, prepared as float32 tensors of 3x8x8; read back with one thread, median:",
        "",
        "way to keep it     bytes a sample  of torch.save  read back  same bits",
        "----------------------------------------------------------------------",
        "plain                       1,000         100.0%    2.50 ms        yes",
        "a much longer way              62           6.2%   12.34 ms         no",
        "",
        "  a much longer way: a | b",
        "",
        "3. The same images in batches of 64, in random order, without workers; median:",
        "",
        "way to keep it  write one  read a batch  images a second  same bits",
        "-------------------------------------------------------------------",
        "files                   -      500.0 ms              128        yes",
        "a store           2.50 ms       16.0 ms            4,000         no",
        "",
        "  files are read one by one in one thread and stacked, a batch of the store by one native call;",
        "  cw.pack starts workers, prepares the images and syncs the store in the time that is told, the files are",
        "  written from prepared tensors and not synced",
        "",
        "4. A small net that sees each of them 10 times, in batches of 32; the first step is not counted:",
        "",
        "fed by      images a second  waiting  a step takes  last loss  same weights",
        "---------------------------------------------------------------------------",
        "files                   700    42.5%       26.3 ms   0.371614           yes",
        "the Loader            1,234     0.0%       25.9 ms   0.371614            no",
        "",
        "  waiting: the part of the time in which a step had no batch; the net has one thread, loading has all",
        "  cores: where it needs more than are free, it takes them from the net, and a step takes longer",
        "  same weights: batches and their order are the same in all ways, bit for bit, and so is what is learned",
        "  the Loader: 2 threads",
        "",
        "5. A training script as people write it, and the doctor; in x y/doctor:",
        "",
        "  $ cordwood doctor train.py",
        "  80% of each step is waiting for data: 80 ms of 100 ms",
        "  cacheable-preprocessing at train.py:9 saves 75 ± 2 ms/step (75%), verified by trial",
        "",
        "  $ cordwood pack train:Images train.cordwood",
        "  in train.py, in place of lines 9-10:",
        "  - loader = DataLoader(",
        "  -     data)",
        "  + import cordwood as cw",
        '  + loader = cw.Loader(cw.open("train.cordwood"))',
        "",
        "  $ cordwood doctor train.py again",
        "  nothing worth changing",
        "",
        "  $ cordwood doctor compare",
        "  faster: 100 ms -> 24 ms a step",
        "  predicted 75 ms/step, got 76: within 1%",
        "",
        "  command and lines are taken from the finding as it prints them; predicted: what it said that they save",
        "  same batches before and after, bit for bit: yes",
        "",
        "Files made, to look at or to delete:",
        "  x/plain",
        "",
        "The command that makes the store; run again, it sees that nothing is left to do:",
        "  cordwood pack 'x y/images' s.cordwood",
        "",
        "What is in the store, and whether it is whole:",
        "  cordwood inspect 'x y/s.cordwood'",
        "  cordwood verify 'x y/s.cordwood'",
    ]
