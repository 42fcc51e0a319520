"""Stores that are brought up to date: the samples of what is there now, and no more work or writing than that takes."""

import json
import os
import random
import warnings
from pathlib import Path
from typing import Any

import pytest

import cordwood as cw
from cordwood.errors import FormatError, PackError, UsageError
from cordwood.packing.journal import job_file as job
from cordwood.packing.journal import shard_log
from cordwood.packing.update.swap_folders import recover
from cordwood.sources import DatasetSource
from cordwood.store.format import shard_index
from tests.packing.support.textfolder import Folder, split
from tests.store.support.small_stores import files_of, flip


@pytest.fixture
def texts(tmp_path: Path) -> Folder:
    """Six files in more than three shards, one of them in several, one without a line, one that fails."""
    made = Folder(tmp_path)
    made.write(a="a1 a2", b="", c="c1 c2 c3 c4 c5 c6 c7", d="d1", e="bad", f="f1 f2 f3")
    made.pack(update=False, on_error="skip")
    made.assert_good(*"abcdef")
    assert len(made.shards) > 4
    return made


def test_nothing_changed(texts: Folder) -> None:
    before = files_of(texts.store)
    assert texts.pack() == []
    assert files_of(texts.store) == before


def test_new_inputs_go_behind_the_others(texts: Folder) -> None:
    inodes = texts.inodes
    texts.write(aa="x1 x2", g="g1")
    assert texts.pack() == ["aa", "g"]
    texts.assert_good(*"abcdef", "aa", "g")
    assert texts.inodes[: len(inodes)] == inodes


def test_a_changed_input_is_done_again_where_it_stands(texts: Folder) -> None:
    inodes = texts.inodes
    texts.write(f="F1 F2 F3 F4")
    assert texts.pack() == ["f"]
    texts.assert_good(*"abcdef")
    assert texts.inodes[:3] == inodes[:3]
    assert texts.inodes[-1] != inodes[-1]


@pytest.mark.parametrize("text", ["C1", "", "C1 C2 C3 C4 C5 C6 C7 C8 C9", "bad"])
def test_a_changed_input_that_lies_in_several_shards(texts: Folder, text: str) -> None:
    texts.write(c=text)
    assert texts.pack(on_error="skip") == ["c"]
    texts.assert_good(*"abcdef")


@pytest.mark.parametrize("gone", ["a", "b", "c", "d", "e", "f", "ab", "ace", "bdf", "cdef", "abc"])
def test_inputs_that_vanished(texts: Folder, gone: str) -> None:
    texts.remove(*gone)
    assert texts.pack() == []
    texts.assert_good(*(name for name in "abcdef" if name not in gone))


def test_shards_of_others_are_not_written_again(texts: Folder) -> None:
    inodes = texts.inodes
    texts.remove("a")
    texts.pack()
    assert set(inodes[2:]) <= set(texts.inodes)


def test_inputs_without_samples_cost_no_shard(texts: Folder) -> None:
    inodes = texts.inodes
    texts.remove("b", "e")
    texts.pack()
    assert texts.inodes == inodes
    texts.assert_good("a", "c", "d", "f")


def test_everything_vanished_and_something_came(texts: Folder) -> None:
    texts.remove(*"abcdef")
    texts.write(g="g1 g2")
    assert texts.pack() == ["g"]
    texts.assert_good("g")


def test_all_at_once_and_again(texts: Folder) -> None:
    texts.remove("d")
    texts.write(a="A1", b="B1 B2", e="E1", bb="new", zz="z1 z2 z3 z4 z5")
    assert texts.pack() == ["a", "b", "e", "bb", "zz"]
    texts.assert_good("a", "b", "c", "e", "f", "bb", "zz")
    assert not texts.store.with_name("x.cordwood.errors.jsonl").exists()
    texts.remove("zz", "c")
    texts.write(b="", d="d1 d2")
    assert texts.pack() == ["b", "d"]
    texts.assert_good("a", "b", "e", "f", "bb", "d")
    before = files_of(texts.store)
    assert texts.pack() == []
    assert files_of(texts.store) == before


@pytest.mark.slow
def test_any_changes_one_after_the_other(texts: Folder) -> None:
    draw, order = random.Random(5), list("abcdef")
    for turn in range(12):
        changed = draw.sample(order, min(draw.randrange(3), len(order)))
        gone = [name for name in draw.sample(order, min(draw.randrange(3), len(order))) if name not in changed]
        new = sorted({f"{draw.choice('abcxyz')}{turn}{number}" for number in range(draw.randrange(4))})
        texts.remove(*gone)
        for name in [*changed, *new]:
            lines = (
                "bad" if draw.random() < 0.1 else " ".join(f"{name}{turn}{each}" for each in range(draw.randrange(6)))
            )
            texts.write(**{name: lines})
        order = [name for name in order if name not in gone]
        assert texts.pack(on_error="skip") == [*(name for name in order if name in changed), *new]
        order += new
        if texts.shards:  # inputs without samples are listed with a shard
            texts.assert_good(*order)


def test_an_input_that_grows_very_much_gets_more_shards(texts: Folder) -> None:
    count = len(texts.shards)
    texts.write(d=" ".join(f"d{number}" for number in range(60)))
    assert texts.pack() == ["d"]
    texts.assert_good(*"abcdef")
    assert len(texts.shards) > count + 3


@pytest.mark.slow
def test_with_workers(texts: Folder) -> None:
    texts.write(c="C1 C2", e="E1", g="g1", h="h1 h2")
    texts.pack(workers=1)
    texts.assert_good(*"abcdefgh")


def test_a_store_that_is_not_there_is_packed(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(a="a1", b="b1")
    assert texts.pack() == ["a", "b"]
    texts.assert_good("a", "b")


def test_failures_are_told_with_their_new_numbers(texts: Folder) -> None:
    log = texts.store.with_name("x.cordwood.errors.jsonl")
    texts.remove("a", "b")
    texts.write(d="bad", g="bad too")
    texts.pack(on_error="skip")
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(one["input"], one["name"]) for one in told] == [(1, "d"), (2, "e"), (4, "g")]


def test_inputs_that_failed_are_tried_again_with_another_transform(texts: Folder) -> None:
    assert texts.pack(version="1", accept_changed_transform=True, transform=kinder) == ["e"]
    assert ("e", "bad") in texts.lines


def during(outage: Path) -> Any:
    """A transform that fails for what begins with "n" as long as there is a file: the network is down, say."""

    def fetched(sample: dict[str, Any]) -> list[dict[str, Any]]:
        if sample["path"].startswith("n") and outage.exists():
            raise OSError("the network is down")
        return split(sample)

    return fetched


@pytest.mark.parametrize(("on_error", "tried"), [("fail", ["n1", "n2"]), ("retry", ["n1", "n2"]), ("skip", [])])
def test_inputs_that_failed_are_tried_again_unless_they_are_skipped(
    tmp_path: Path, on_error: str, tried: list[str]
) -> None:
    """Whoever skips what fails would have the same shards written anew every time."""
    texts, outage = Folder(tmp_path), tmp_path / "outage"
    outage.touch()
    texts.write(a="a1 a2", n1="x1", b="b1", c="c1 c2 c3", n2="y1 y2", d="d1")
    texts.pack(update=False, transform=during(outage))
    errors = texts.store.with_name("x.cordwood.errors.jsonl")
    assert len(errors.read_text().splitlines()) == 2
    outage.unlink()
    assert texts.pack(transform=during(outage), on_error=on_error) == tried
    assert errors.exists() == (not tried)
    if tried:
        texts.assert_good("a", "b", "c", "d", "n1", "n2")
    assert texts.pack(transform=during(outage), on_error=on_error) == []  # all that failed is there now


def test_what_fails_again_is_named_and_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    texts, outage = Folder(tmp_path), tmp_path / "outage"
    outage.touch()
    texts.write(a="a1 a2", n1="x1", b="b1")
    texts.pack(update=False, transform=during(outage))
    before = files_of(texts.store)
    with pytest.raises(PackError, match=r"\(n1\) failed: OSError: the network is down"):
        texts.pack(transform=during(outage), on_error="fail")
    assert files_of(texts.store) == before


def test_a_failure_promises_what_is_so(texts: Folder) -> None:
    """While shards are written anew nothing is kept of what was done; afterwards it is as in any job."""
    texts.write(a="bad", g="g1")
    with pytest.raises(PackError) as caught:
        texts.pack(on_error="fail", max_errors=0)
    assert '(a) failed: ValueError: it says bad; the store is as it was before the update; on_error="skip"' in str(
        caught.value
    )
    assert "what comes before it is packed" not in str(caught.value)
    assert f"{texts.store} is as it was before the update" in caught.value.__notes__
    texts.write(a="A1", e="E1", h="bad")
    with pytest.raises(PackError, match=r"\(h\) failed: .*; what comes before it is packed, and the same call goes on"):
        texts.pack(on_error="fail")
    with pytest.warns(UserWarning, match="packing is not finished"):
        assert [name for name, _ in texts.lines if name in "ae"] == ["a", "e"]
    texts.write(h="h1")
    texts.pack(on_error="fail")
    texts.assert_good(*"abcdefgh")


def kinder(sample: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**one, "line": one["line"].lower()} for one in split({**sample, "text": sample["text"].upper()})]


def test_an_input_that_fails_leaves_the_store_as_it_was(texts: Folder) -> None:
    before = files_of(texts.store)
    texts.write(c="bad")
    with pytest.raises(PackError, match="c"):
        texts.pack(max_errors=0)
    assert files_of(texts.store) == before
    assert [path.name for path in texts.store.parent.iterdir() if path.name.startswith(".")] == []


def test_new_inputs_are_gone_on_with_after_a_stop(texts: Folder) -> None:
    texts.remove("a")
    texts.write(**{f"g{number:02d}": f"{number}a {number}b" for number in range(12)})
    texts.write(g07="bad")
    with pytest.raises(PackError, match="g07"):
        texts.pack(max_errors=0)
    told = job.read(texts.store)
    assert told is not None
    assert not told.complete
    with pytest.raises(UsageError):  # which would take other inputs for those that are missing
        texts.pack(update=False)
    assert texts.pack(on_error="skip")[0] in ("g06", "g07")
    texts.assert_good(*"bcdef", *(f"g{number:02d}" for number in range(12)))


def test_what_was_stopped_goes_on_though_the_source_has_changed_again(texts: Folder) -> None:
    texts.write(**{f"g{number:02d}": f"{number}a {number}b {number}c" for number in range(12)})
    texts.write(g09="bad")
    with pytest.raises(PackError):
        texts.pack(max_errors=0)
    texts.remove("g01")
    texts.write(g02="x", g09="y", c="C", h="h1")
    texts.pack()
    texts.assert_good(*"abcdef", "g00", *(f"g{number:02d}" for number in range(2, 12)), "h")
    assert not list(texts.store.glob(".shard*"))


def test_a_first_run_that_was_stopped_can_be_gone_on_with(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(**{f"g{number:02d}": f"{number}a {number}b {number}c" for number in range(12)})
    texts.write(g09="bad")
    with pytest.raises(PackError):
        texts.pack(update=False, max_errors=0)
    texts.write(g09="g9", a="a1")
    texts.pack()
    assert sorted(texts.lines) == sorted(
        (path.name, line) for path in texts.folder.iterdir() for line in path.read_text().split()
    )


# ---- killed while folders change places ------------------------------------------------------------------------------


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_killed_while_folders_change_places(texts: Folder, monkeypatch: pytest.MonkeyPatch, renames: int) -> None:
    left = [renames]
    rename = Path.rename

    def dying(path: Path, target: Path) -> Path:
        if not left[0]:
            os._exit(9)
        left[0] -= 1
        return rename(path, target)

    texts.write(c="C1")
    child = os.fork()
    if not child:
        monkeypatch.setattr(Path, "rename", dying)
        monkeypatch.setattr("shutil.rmtree", lambda *_, **__: os._exit(9) if renames == 2 else None)
        try:
            texts.pack()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    texts.pack()
    texts.assert_good(*"abcdef")


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1, 3, 6, 9, 14, 20, 26, 33])
def test_killed_at_any_moment(texts: Folder, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    left = [after]
    sync = os.fsync

    def dying(fd: int) -> None:
        if not left[0]:
            os._exit(9)
        left[0] -= 1
        sync(fd)

    texts.remove("a")
    texts.write(c="C1 C2", f="F", g="g1 g2 g3", h="h1")
    child = os.fork()
    if not child:
        monkeypatch.setattr(os, "fsync", dying)
        try:
            texts.pack(on_error="skip")
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where new samples are still missing, that is told
        assert len(cw.open(texts.store)) > 0
    texts.pack(on_error="skip")
    texts.assert_good(*"bcdefgh")


def test_recovering_puts_the_old_one_back_if_there_is_no_new_one(texts: Folder) -> None:
    texts.store.rename(texts.store.with_name(".x.cordwood.before-update"))
    recover(texts.store)
    texts.assert_good(*"abcdef")
    recover(texts.store)


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_classes_that_have_changed(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(a="a1")
    texts.pack(update=False, transform=labelled, classes=["cat", "dog"])
    texts.write(b="b1")
    with pytest.raises(UsageError, match="labels that are stored would mean other ones"):
        texts.pack(transform=labelled, classes=["bird", "cat", "dog"])
    texts.pack(transform=labelled, classes=["cat", "dog"])
    assert len(cw.open(texts.store)) == 2


def labelled(sample: dict[str, Any]) -> dict[str, Any]:
    return {"label": 1}


def test_a_batched_transform_that_keeps_its_rows(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(**{f"g{number:02d}": f"{number}" for number in range(30)})
    options: dict[str, Any] = {"transform": upper, "batched": True, "batch_size": 4}
    texts.pack(update=False, **options)
    texts.remove("g05")
    texts.write(g10="ten", g30="more")
    assert texts.pack(**options) == ["g10", "g30"]
    found = {one["path"]: one["text"] for one in cw.open(texts.store)}
    assert found == {path.name: path.read_text().upper() for path in texts.folder.iterdir()}


def upper(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, "text": [text.upper() for text in batch["text"]]}


def test_a_batched_transform_that_does_not(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(**{f"g{number:02d}": f"{number}" for number in range(30)})
    options: dict[str, Any] = {"transform": first_two, "batched": True, "batch_size": 4}
    texts.pack(update=False, **options)
    texts.write(g10="ten")
    with pytest.raises(UsageError, match="gave other numbers of samples than it got"):
        texts.pack(**options)


def first_two(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: values[:2] for name, values in batch.items()}


def test_a_part_of_a_job(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(a="a1", b="b1")
    texts.pack(update=False, part="1/2")
    with pytest.raises(UsageError, match="merge all parts, and update the result"):
        texts.pack(part="1/2")


def test_other_options_and_another_transform(texts: Folder) -> None:
    texts.write(c="C")
    with pytest.raises(UsageError, match="seed"):
        texts.pack(seed=1)
    with pytest.raises(UsageError, match="accept_changed_transform"):
        texts.pack(transform=kinder)


def test_a_store_that_was_not_packed(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(a="a1")
    with cw.Writer(texts.store) as writer:
        writer.append(1)
    with pytest.raises(UsageError, match=r"was not made by cw\.pack"):
        texts.pack()


def test_a_damaged_shard_is_found(texts: Folder) -> None:
    rows = shard_index.read(texts.store)
    assert rows.samples
    flip(texts.shards[-1], -200)
    texts.write(f="F")
    with pytest.raises(FormatError):
        texts.pack()


def test_inputs_without_names_may_become_more(tmp_path: Path) -> None:
    store = tmp_path / "x.cordwood"
    items = [{"number": number} for number in range(300)]
    cw.pack(DatasetSource(items), store, workers=0, progress=False)
    items += [{"number": number} for number in range(300, 310)]
    cw.pack(DatasetSource(items), store, workers=0, progress=False, update=True)
    assert cw.open(store).column("number").tolist() == list(range(310))
    with pytest.raises(UsageError, match="which ones are gone cannot be told"):
        cw.pack(DatasetSource(items[:5]), store, workers=0, progress=False, update=True)


def test_what_killed_jobs_left_of_another_list_is_not_gone_on_with(texts: Folder) -> None:
    texts.write(g="g1")
    shard_log.open_path(texts.store, len(texts.shards)).write_bytes(b"rubbish")
    shard_log.log_path(texts.store, len(texts.shards)).write_bytes(b"rubbish")
    texts.pack()
    texts.assert_good(*"abcdefg")
