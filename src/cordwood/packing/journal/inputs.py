"""Reads and writes ``inputs/<shard>.jsonl``: the inputs that the samples of a packed shard came from.

    lines = Lines()
    lines.add(InputEntry("cats/1.jpg", 4096, 1700000000000000000, samples=1))
    write("train.cordwood", 0, Position(), Position(1), Totals(inputs=1, samples=1), lines.text())
    for entry in read("train.cordwood", 0).entries():
        print(entry.name, entry.samples)

A file is written before its shard takes its place, so every packed shard has one; a file without its shard counts for
nothing. It is JSON lines. The first one tells the positions before and behind the shard, and what was done up to its
end::

    {"cordwood_inputs":[1,0],"crc32c":"...","first":[0,0],"lines":[61,"..."],"next":[1,0],"totals":{"inputs":1,...}}

``lines`` is the size and the checksum of the lines behind it; ``crc32c`` is over the other members in the form that
the store's manifest has, too. Every further line is an input, in order: ``["cats/1.jpg",4096,1700000000000000000,1]``,
its name, size, stamp and number of samples in this shard (0: dropped, -1: failed), with ``true`` behind them where its
file has frames that were not read, or ``[1000,1]``, a thousand inputs without a name, of one sample each. Readers of
stores know nothing of these files.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import starmap
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any, Final, NamedTuple

from cordwood.common.atomic_file import replacing
from cordwood.common.files import opened, read_all
from cordwood.common.text import brief, reason_of
from cordwood.errors import FormatError, Reason, StorageError, UsageError
from cordwood.native import _native
from cordwood.sources import Input
from cordwood.store.format.folder import sync_parent
from cordwood.store.format.manifest import canonical

FOLDER: Final = "inputs"
VERSION: Final = (1, 0)
FAILED: Final = -1  # as the number of samples of an input
_MOST_BYTES = 1 << 32  # of a file: a shard has a million samples at most
_LONGEST_HEADER = 4096
_AT_ONCE = 1 << 16  # bytes of lines that are parsed together
_MOST = 1 << 63  # integers are below this
_PARTS_REFUSED = frozenset(("", ".", ".."))


class Position(NamedTuple):
    """How far a job is: the first input of the unit that is not finished, and how many of its samples are stored."""

    input: int = 0
    samples: int = 0


@dataclass
class Totals:
    """What was done from the beginning of the job up to the end of a shard; an input counts when it is finished."""

    inputs: int = 0
    samples: int = 0
    dropped: int = 0
    failed: int = 0
    bytes_in: int = 0
    raw_bytes: int = 0
    more_frames: int = 0  # inputs with a name whose files have frames that were not read

    def to_json(self) -> dict[str, int]:
        """As in the file."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: object) -> "Totals":
        """What `to_json` made; FormatError for anything else. Members that a newer Cordwood added are passed over."""
        if not isinstance(found, dict):
            raise FormatError(f"the totals are {brief(found)}, but are an object")
        totals = cls()
        for name in (field.name for field in fields(cls)):
            if name in found or name != "more_frames":  # which earlier versions did not count
                setattr(totals, name, _count(found.get(name), f"the total {name!r}"))
        return totals


class InputEntry(NamedTuple):
    """An input, or a run of inputs that have no names, and the number of samples of each that are in the shard."""

    name: str | None
    size: int | None
    stamp: int | None
    samples: int
    inputs: int = 1
    more_frames: bool = False

    @classmethod
    def of(cls, one: Input, samples: int) -> "InputEntry":
        """What is to be told of an input of which so many samples are in the shard."""
        more_frames = one.more_frames and one.name is not None and samples != FAILED
        return cls(one.name, one.size, one.stamp, samples, more_frames=more_frames)


class InputsHeader(NamedTuple):
    """The first line of a file."""

    first: Position
    after: Position
    totals: Totals


class ShardInputs:
    """What a file tells; its lines are parsed when they are asked for."""

    def __init__(self, where: str, header: InputsHeader, lines: bytes) -> None:
        self.first, self.after, self.totals = header
        self.lines = lines
        self.where = where

    def entries(self) -> Iterator[InputEntry]:
        """The inputs that begin or go on in the shard, in order."""
        return entries(self.lines, self.where)


def entries(text: bytes, where: str = "") -> Iterator[InputEntry]:
    """The inputs that such lines tell of; `where` names them in messages."""
    begin, number = 0, 2
    while begin < len(text):
        end = text.find(b"\n", begin + _AT_ONCE) + 1 or len(text)
        lines = text[begin:end].removesuffix(b"\n").split(b"\n")
        yield from _entries(lines, number, where)
        begin, number = end, number + len(lines)


def _entries(lines: list[bytes], number: int, where: str) -> Iterator[InputEntry]:
    try:
        found = json.loads(b"[%b]" % b",".join(lines))  # at once, which is several times as fast
    except (ValueError, RecursionError):
        found = []
    if len(found) == len(lines) and all(map(_is_plain, found)):
        yield from starmap(InputEntry, found)
        return
    for place, text in enumerate(lines, number):
        try:
            entry = _entry(text)
        except FormatError as error:
            raise FormatError(f"{where}, line {place}: {error}") from None
        yield entry


class Lines:
    """The lines of a shard that is being packed, as the bytes that they will be.

    ::

        lines = Lines()
        for number in range(1000):
            lines.add(InputEntry(None, None, None, samples=1))
        lines.text()          # b"[1000,1]\\n"

    Inputs without names that follow each other and have the same number of samples become one line, and so do the
    pieces of an input with a name. `Lines(text)` goes on behind lines made before, and ends with the same bytes.
    """

    def __init__(self, text: bytes = b"") -> None:
        begin = text.rfind(b"\n", 0, -1) + 1
        self._text = bytearray(text[:begin])
        self._last: InputEntry | None = _entry(text[begin:].rstrip(b"\n")) if text else None

    def add(self, entry: InputEntry) -> None:
        """An input; UsageError if it cannot be recorded."""
        last = self._last
        if last is not None and last.name == entry.name:
            if entry.name is None:
                if last.samples == entry.samples:
                    self._last = last._replace(inputs=last.inputs + entry.inputs)
                    return
            elif last.samples >= 0 and entry.samples >= 0:
                self._last = last._replace(samples=last.samples + entry.samples)
                return
        check_name(entry.name)
        if last is not None:
            self._text += line(last)
        self._last = entry

    def text(self) -> bytes:
        """All lines so far; more can be added."""
        return bytes(self._text) + (line(self._last) if self._last is not None else b"")

    def clear(self) -> None:
        """Begin anew, with the next shard."""
        self._text, self._last = bytearray(), None


def line(entry: InputEntry) -> bytes:
    """The line of an entry, line feed included."""
    name, size, stamp, samples, inputs, more_frames = entry
    if name is None:
        return b"[%d,%d]\n" % (inputs, samples)
    told = "null" if size is None else size, "null" if stamp is None else stamp
    more = ",true" if more_frames else ""
    return f"[{encode_basestring_ascii(name)},{told[0]},{told[1]},{samples}{more}]\n".encode()


def check_name(name: str | None) -> None:
    """UsageError if an input cannot have this name: names are relative paths, and stay below their folder."""
    if name is not None and not is_name(name):
        raise UsageError(
            f"an input is named {brief(name)}, but a name is a relative path with '/', without '..', empty parts or "
            "zero bytes"
        )


def is_name(name: str) -> bool:
    """Whether an input may be called this."""
    return "\0" not in name and _PARTS_REFUSED.isdisjoint(name.split("/"))


def path_of(store: str | os.PathLike[str], shard: int) -> Path:
    """Where the inputs of a shard are told."""
    return Path(store) / FOLDER / f"{shard:08d}.jsonl"


def write(
    store: str | os.PathLike[str], shard: int, first: Position, after: Position, totals: Totals, lines: bytes
) -> None:
    """Put the file of a shard in its place, durably; `lines` are those of `Lines.text`."""
    path = path_of(store, shard)
    members = {
        "cordwood_inputs": list(VERSION),
        "first": list(first),
        "lines": [len(lines), f"{_native.crc32c(lines):08x}"],
        "next": list(after),
        "totals": totals.to_json(),
    }
    members["crc32c"] = f"{_native.crc32c(canonical(members)):08x}"
    try:
        path.parent.mkdir()
        sync_parent(path.parent)
    except FileExistsError:
        pass
    except OSError as error:
        raise StorageError(error.errno, f"{error.strerror or error}: the folder cannot be made", str(path)) from error
    with replacing(path, durable=True) as file:
        file.write(canonical(members) + b"\n")
        file.write(lines)


def read(store: str | os.PathLike[str], shard: int) -> ShardInputs:
    """The file of a shard, its checksums found right.

    ::

        told = read("train.cordwood", 0)
        told.first, told.after, told.totals, list(told.entries())

    StorageError if there is no such file, FormatError if it is not what was written.
    """
    path = path_of(store, shard)
    data = read_all(path, "the list of the shard's inputs", _MOST_BYTES)
    end = data.find(b"\n", 0, _LONGEST_HEADER)
    lines = data[end + 1 :]
    try:
        header, told = _header(data[:end] if end >= 0 else data[:_LONGEST_HEADER])
        if told != [len(lines), f"{_native.crc32c(lines):08x}"]:
            raise FormatError(
                f"{len(lines)} bytes follow the first line, which are not the {brief(told)} that were written: the "
                "file is damaged or was edited; restore it from a copy"
            )
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    return ShardInputs(str(path), header, lines)


def with_more_frames(store: str | os.PathLike[str], shards: int) -> str | None:
    """The name of the first input whose file has frames that were not read; None if no shard tells of one."""
    for shard in range(shards):
        if read_header(store, shard).totals.more_frames:
            return next((entry.name for entry in read(store, shard).entries() if entry.more_frames), None)
    return None


def read_header(store: str | os.PathLike[str], shard: int) -> InputsHeader:
    """The first line of a shard's file alone: positions and totals."""
    path = path_of(store, shard)
    with opened(path, "the list of the shard's inputs") as fd:
        data = os.pread(fd, _LONGEST_HEADER, 0)
    try:
        return _header(data.partition(b"\n")[0])[0]
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this should be JSON, but is not: {reason_of(error)}") from None


def _header(data: bytes) -> tuple[InputsHeader, Any]:
    """The first line, and what it tells of the others."""
    found = _parsed(data)
    if not isinstance(found, dict) or "cordwood_inputs" not in found:
        raise FormatError("the first line is an object with a member 'cordwood_inputs', which is missing here")
    version = found["cordwood_inputs"]
    if not isinstance(version, list) or len(version) != 2 or not all(type(part) is int for part in version):
        raise FormatError(f"the version is two numbers, not {brief(version)}")
    if version[0] != VERSION[0]:
        raise FormatError(
            f"version {brief(version)}, but this Cordwood reads version {VERSION[0]}: upgrade it", Reason.VERSION
        )
    told = found.pop("crc32c", None)
    try:
        crc = f"{_native.crc32c(canonical(found)):08x}"
    except RecursionError:
        raise FormatError("the first line is nested too deeply") from None
    if told != crc:
        raise FormatError(
            f"the first line has checksum {crc}, but {brief(told)} was written: the file is damaged or was edited; "
            "restore it from a copy"
        )
    first, after = (_position(found.get(name), name) for name in ("first", "next"))
    if after < first:
        raise FormatError(f"the shard begins at {brief(first)} and ends before, at {brief(after)}")
    return InputsHeader(first, after, Totals.from_json(found.get("totals"))), found.get("lines")


def _position(found: object, what: str) -> Position:
    if not isinstance(found, list) or len(found) != 2:
        raise FormatError(f"{what!r} is {brief(found)}, but is two numbers: an input and its samples")
    return Position(*(_count(each, f"a number of {what!r}") for each in found))


def _count(found: object, what: str) -> int:
    if type(found) is not int or not 0 <= found < _MOST:
        raise FormatError(f"{what} is {brief(found)}, but is a whole number of 0 or more")
    return found


def _is_plain(found: object) -> bool:
    """Whether this is an input with a name, as nearly all are, and nothing is wrong with it."""
    if type(found) is not list or len(found) != 4:
        return False
    name, size, stamp, samples = found
    return (
        type(name) is str
        and is_name(name)
        and type(samples) is int
        and FAILED <= samples < _MOST
        and (size is None or (type(size) is int and 0 <= size < _MOST))
        and (stamp is None or (type(stamp) is int and -_MOST <= stamp < _MOST))
    )


def _entry(data: bytes) -> InputEntry:
    match _parsed(data):
        case [str() as name, size, stamp, samples, *more] if not more or (len(more) == 1 and more[0] is True):
            if not is_name(name):
                raise FormatError(f"an input is named {brief(name)}, which is not a relative path")
            size = None if size is None else _count(size, "the size of an input")
            if stamp is not None and (type(stamp) is not int or not -_MOST <= stamp < _MOST):
                raise FormatError(f"the stamp of an input is {brief(stamp)}, but is an integer of 64 bits")
            return InputEntry(name, size, stamp, _samples(samples), more_frames=bool(more))
        case [inputs, samples]:
            if not _count(inputs, "the number of inputs"):
                raise FormatError("a run of no inputs")
            return InputEntry(None, None, None, _samples(samples), inputs)
        case other:
            raise FormatError(
                "an input is [name, size, stamp, samples], [name, size, stamp, samples, true] or [inputs, samples], "
                f"not {brief(other)}"
            )


def _samples(found: object) -> int:
    return FAILED if found == FAILED and type(found) is int else _count(found, "the number of samples")
