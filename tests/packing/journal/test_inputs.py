"""The files that tell which inputs a shard's samples were made of: what is written comes back, and nothing else."""

import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.native import _native
from cordwood.packing.journal import inputs
from cordwood.packing.journal.inputs import FAILED, InputEntry, Lines, Position, Totals
from cordwood.sources import Input
from cordwood.store.format.manifest import canonical

FIRST, AFTER = Position(3, 1), Position(7, 0)
TOTALS = Totals(inputs=7, samples=9, dropped=1, failed=2, bytes_in=1 << 40, raw_bytes=5)
PARTS = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=5).filter(
    lambda part: part not in (".", "..")
)
COUNTS = st.integers(0, (1 << 63) - 1)
SAMPLES = st.integers(-1, 5)
NAMED = st.builds(
    InputEntry,
    st.lists(PARTS, min_size=1, max_size=3).map("/".join),
    st.none() | COUNTS,
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    SAMPLES,
    st.just(1),
)
UNNAMED = st.builds(InputEntry, st.none(), st.none(), st.none(), SAMPLES, st.integers(1, 100), st.just(False))


def expanded(entries: list[InputEntry]) -> list[InputEntry]:
    return [entry._replace(inputs=1) for entry in entries for _ in range(entry.inputs)]


@given(st.lists(NAMED, unique_by=lambda entry: entry.name) | st.lists(UNNAMED))
def test_what_is_written_comes_back(tmp_path_factory: pytest.TempPathFactory, entries: list[InputEntry]) -> None:
    store = tmp_path_factory.mktemp("store")
    lines = Lines()
    for entry in entries:
        lines.add(entry)
    inputs.write(store, 12, FIRST, AFTER, TOTALS, lines.text())
    told = inputs.read(store, 12)
    assert (told.first, told.after, told.totals) == (FIRST, AFTER, TOTALS)
    assert expanded(list(told.entries())) == expanded(entries)
    assert inputs.read_header(store, 12) == (FIRST, AFTER, TOTALS)


@given(st.lists(NAMED | UNNAMED), st.data())
def test_lines_that_go_on_end_with_the_same_bytes(entries: list[InputEntry], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(entries)))
    whole, first = Lines(), Lines()
    for entry in entries:
        whole.add(entry)
    for entry in entries[:cut]:
        first.add(entry)
    second = Lines(first.text())
    for entry in entries[cut:]:
        second.add(entry)
    assert second.text() == whole.text()


def test_inputs_without_names_become_runs() -> None:
    lines = Lines()
    for samples in [1] * 1000 + [0, 0, -1, 1]:
        lines.add(InputEntry(None, 5, 6, samples))
    assert lines.text() == b"[1000,1]\n[2,0]\n[1,-1]\n[1,1]\n"
    lines.clear()
    assert lines.text() == b""


def test_pieces_of_one_input_become_one_line() -> None:
    lines = Lines()
    for samples in (2, 3):
        lines.add(InputEntry("a", 1, None, samples))
    lines.add(InputEntry("b", 1, None, -1))
    assert lines.text() == b'["a",1,null,5]\n["b",1,null,-1]\n'


def test_where_the_files_are_and_what_is_in_them(tmp_path: Path) -> None:
    inputs.write(tmp_path, 3, Position(), Position(1, 0), Totals(1, 1), inputs.line(InputEntry("ä/1", 4, 5, 1)))
    text = (tmp_path / "inputs" / "00000003.jsonl").read_text(encoding="ascii")
    header, line = text.splitlines()
    assert json.loads(header)["next"] == [1, 0]
    assert json.loads(header)["totals"]["samples"] == 1
    assert json.loads(line) == ["ä/1", 4, 5, 1]


@pytest.mark.parametrize("name", ["", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a/", "a\0b", "a/.."])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="relative path"):
        Lines().add(InputEntry(name, None, None, 1))
    inputs.write(tmp_path, 0, Position(), Position(), Totals(), inputs.line(InputEntry(name, None, None, 1)))
    with pytest.raises(FormatError, match=r"00000000\.jsonl, line 2: an input is named"):
        list(inputs.read(tmp_path, 0).entries())


@pytest.mark.parametrize("name", ["..a", "a..b/...", "a b", "\n", "\udcff", "-rf", string.punctuation.replace("/", "")])
def test_odd_names_are_names(name: str) -> None:
    lines = Lines()
    lines.add(InputEntry(name, None, None, 1))
    assert Lines(lines.text()).text() == lines.text()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="list of the shard's inputs cannot be read"):
        inputs.read(tmp_path, 0)
    with pytest.raises(StorageError):
        inputs.read_header(tmp_path, 0)


BAD_LINES = {
    "no JSON": b"[1,",
    "an object": b"{}",
    "a number": b"5",
    "three things": b'["a",1,2]',
    "a name that is no text": b"[5,1,2,3]",
    "a negative size": b'["a",-1,null,1]',
    "a size that is no integer": b'["a",1.0,null,1]',
    "a bool for a size": b'["a",true,null,1]',
    "a stamp of 65 bits": b'["a",1,18446744073709551616,1]',
    "a stamp of text": b'["a",1,"x",1]',
    "samples below -1": b'["a",1,null,-2]',
    "samples that are not a number": b'["a",1,null,null]',
    "samples that are minus one in another way": b'["a",1,null,-1.0]',
    "an integer of many digits": b"[" + b"9" * 5000 + b",1]",
    "a run of no inputs": b"[0,1]",
    "a run of fewer than no inputs": b"[-1,1]",
    "an empty line": b"",
    "no UTF-8": b'["\xff",null,null,1]',
    "deep nesting": b"[" * 100_000,
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_lines_that_are_not_inputs_are_refused(tmp_path: Path, line: bytes) -> None:
    inputs.write(tmp_path, 0, FIRST, AFTER, TOTALS, b'["a",1,null,1]\n' + line + b"\n")
    told = inputs.read(tmp_path, 0)
    with pytest.raises(FormatError, match="line 3: "):
        list(told.entries())


GOOD: dict[str, Any] = {
    "cordwood_inputs": [1, 0],
    "first": [0, 0],
    "lines": [0, f"{_native.crc32c(b''):08x}"],
    "next": [1, 0],
    "totals": Totals().to_json(),
}
BAD_HEADERS: dict[str, dict[str, Any]] = {
    "a newer version": {"cordwood_inputs": [2, 0]},
    "a version of text": {"cordwood_inputs": "1"},
    "a position of one number": {"first": [0]},
    "a position of text": {"next": ["1", 0]},
    "a negative position": {"first": [-1, 0]},
    "no position": {"next": None},
    "an end before the beginning": {"first": [2, 0]},
    "no totals": {"totals": None},
    "totals that lack one": {"totals": {"inputs": 0}},
    "a total of 65 bits": {"totals": {**Totals().to_json(), "samples": 1 << 64}},
    "a total that is a bool": {"totals": {**Totals().to_json(), "samples": True}},
}


def with_header(store: Path, members: Any) -> None:
    crc = f"{_native.crc32c(canonical(members)):08x}"
    (store / "inputs").mkdir()
    inputs.path_of(store, 0).write_bytes(canonical({**members, "crc32c": crc}) + b"\n")


def test_the_header_that_the_bad_ones_are_made_of_is_good(tmp_path: Path) -> None:
    with_header(tmp_path, GOOD | {"of a newer Cordwood": 1})
    assert inputs.read(tmp_path, 0).after == (1, 0)


@pytest.mark.parametrize("other", BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_headers_that_cannot_be_are_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    with_header(tmp_path, GOOD | other)
    for reading in (inputs.read, inputs.read_header):
        with pytest.raises(FormatError, match=r"00000000\.jsonl: "):
            reading(tmp_path, 0)


@pytest.mark.parametrize("data", [b"", b"\n", b"[]\n", b"{}\n", b"x" * 10_000, b"[" * 5000, b"\xff\n"])
def test_files_that_are_something_else_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "inputs").mkdir()
    inputs.path_of(tmp_path, 0).write_bytes(data)
    for reading in (inputs.read, inputs.read_header):
        with pytest.raises(FormatError):
            reading(tmp_path, 0)


def test_every_changed_or_missing_byte_is_found(tmp_path: Path) -> None:
    inputs.write(tmp_path, 0, FIRST, AFTER, TOTALS, b'["cats/1.jpg",1,null,1]\n[3,1]\n')
    path = inputs.path_of(tmp_path, 0)
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(FormatError):
            inputs.read(tmp_path, 0)
        path.write_bytes(good[:place])
        with pytest.raises(FormatError):
            inputs.read(tmp_path, 0)


def test_totals_of_an_earlier_version_know_no_frames() -> None:
    told = Totals.from_json({name: 1 for name in Totals().to_json() if name != "more_frames"})
    assert told == Totals(1, 1, 1, 1, 1, 1, 0)
    with pytest.raises(FormatError, match="the total 'more_frames' is"):
        Totals.from_json({**Totals().to_json(), "more_frames": None})


def test_an_input_with_more_frames(tmp_path: Path) -> None:
    lines = Lines()
    for name, more in (("a.jpg", False), ("b.gif", True), ("c.gif", True)):
        lines.add(InputEntry.of(Input(None, name, 1, 2, more), 1))
    assert lines.text() == b'["a.jpg",1,2,1]\n["b.gif",1,2,1,true]\n["c.gif",1,2,1,true]\n'
    inputs.write(tmp_path, 0, Position(0), Position(2), Totals(2, 2), b'["x.jpg",1,2,2]\n')
    inputs.write(tmp_path, 1, Position(2), Position(5), Totals(5, 5, more_frames=2), lines.text())
    assert [entry.more_frames for entry in inputs.read(tmp_path, 1).entries()] == [False, True, True]
    assert inputs.with_more_frames(tmp_path, 2) == "b.gif"
    assert inputs.with_more_frames(tmp_path, 1) is None
    assert Lines(lines.text()).text() == lines.text()


@pytest.mark.parametrize("more", ["false", "1", "true,true", "null"])
def test_what_may_stand_behind_an_input(more: str) -> None:
    with pytest.raises(FormatError, match=r"line 2: an input is .*samples, true\]"):
        list(inputs.entries(f'["a.gif",1,2,1,{more}]\n'.encode(), "here"))


def test_only_named_inputs_that_did_not_fail_count() -> None:
    assert InputEntry.of(Input(None, "a", more_frames=True), 0).more_frames
    assert not InputEntry.of(Input(None, "a", more_frames=True), FAILED).more_frames
    assert not InputEntry.of(Input(None, None, more_frames=True), 1).more_frames
