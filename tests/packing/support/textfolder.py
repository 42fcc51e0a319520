"""A folder of text files, the source that lists it, and the store that is packed of it.

texts = Folder(tmp_path)
texts.write(a="a1 a2", b="bad")
texts.pack(on_error="skip")
texts.assert_good("a", "b")
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import cordwood as cw
from cordwood.packing.journal import inputs as inputfiles
from cordwood.packing.journal import job_file
from cordwood.sources import Input, Source
from cordwood.store.checking.verify import verify
from cordwood.store.format import shard_index
from tests.packing.support.packed_stores import entries_of

SHARD_BYTES = 100


class Texts(Source):
    """The files of a folder; each line becomes a sample, one that says "bad" fails."""

    kind = "texts"

    def __init__(self, folder: Path, classes: Sequence[str] = ()) -> None:
        self.folder = folder
        self.read: list[str] = []  # names of the files that were read, in this process
        self._classes = list(classes)

    @property
    def count(self) -> int:
        return len(list(self.folder.iterdir()))

    def inputs(self, start: int = 0) -> Any:
        for path in sorted(self.folder.iterdir())[start:]:
            status = path.stat()
            yield Input(str(path), path.name, status.st_size, status.st_mtime_ns)

    def reader(self) -> Callable[[str], Any]:
        def read(handle: str) -> Any:
            self.read.append(Path(handle).name)
            return {"path": Path(handle).name, "text": Path(handle).read_text()}

        return read

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "path": str(self.folder)}

    def fingerprint(self) -> str:
        return str(hash(tuple((one.name, one.size, one.stamp) for one in self.inputs())))

    @property
    def classes(self) -> dict[str, list[str]]:
        return {"label": self._classes} if self._classes else {}


def split(sample: dict[str, Any]) -> list[dict[str, Any]]:
    if "bad" in sample["text"]:
        raise ValueError("it says bad")
    lines = sample["text"].split()
    return [
        {"path": sample["path"], "line": line, "label": 0, "values": torch.arange(number, number + 30)}
        for number, line in enumerate(lines)
    ]


class Folder:
    """A folder of text files, and the store that is packed of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "texts"
        self.folder.mkdir()
        self.store = tmp_path / "x.cordwood"
        self._stamp = 1_000_000_000

    def write(self, **texts: str) -> None:
        """Files by name; each has a date of its own."""
        for name, text in texts.items():
            (self.folder / name).write_text(text)
            self._stamp += 1_000_000
            os.utime(self.folder / name, ns=(self._stamp, self._stamp))

    def remove(self, *names: str) -> None:
        for name in names:
            (self.folder / name).unlink()

    def pack(self, update: bool = True, **options: Any) -> list[str]:
        """Pack, and tell which files were read for that."""
        source = Texts(self.folder, options.pop("classes", ()))
        usual = {"transform": split, "workers": 0, "shard_bytes": SHARD_BYTES, "progress": False, "on_error": "skip"}
        options = {**usual, **options}
        cw.pack(source, self.store, update=update, **options)
        return source.read

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What the store holds."""
        return [(one["path"], one["line"]) for one in cw.open(self.store)]

    @property
    def shards(self) -> list[Path]:
        return sorted(self.store.glob("shard-*.cws"))

    @property
    def inodes(self) -> list[int]:
        return [path.stat().st_ino for path in self.shards]

    def assert_good(self, *expected: str) -> None:
        """Fail unless the store holds the lines of just these files, in this order, and its lists tell so."""
        texts = {name: (self.folder / name).read_text() for name in expected}
        assert self.lines == [
            (name, line) for name, text in texts.items() if "bad" not in text for line in text.split()
        ]
        assert verify(self.store).ok
        entries: dict[str, int] = {}
        for entry in entries_of(self.store):
            entries[str(entry.name)] = entries.get(str(entry.name), 0) + entry.samples
            status = (self.folder / str(entry.name)).stat()
            assert (entry.size, entry.stamp) == (status.st_size, status.st_mtime_ns)
        assert entries == {name: -1 if "bad" in text else len(text.split()) for name, text in texts.items()}
        told = job_file.read(self.store)
        assert told is not None
        assert (told.complete, told.fingerprint) == (True, Texts(self.folder).fingerprint())
        assert told.totals is not None
        samples = [max(count, 0) for count in entries.values()]
        assert (told.totals.inputs, told.totals.samples) == (len(texts), sum(samples))
        assert told.totals.failed == list(entries.values()).count(-1)
        assert told.totals.dropped == list(entries.values()).count(0)
        assert told.totals.bytes_in == sum((self.folder / name).stat().st_size for name in texts)
        assert told.totals.raw_bytes == self.raw_bytes()
        headers = [inputfiles.read_header(self.store, shard) for shard in range(len(self.shards))]
        records = shard_index.read(self.store).records
        assert [one.totals.samples for one in headers] == (records["first"] + records["count"]).tolist()
        assert headers[-1].after == (len(texts), 0)
        assert not [path.name for path in self.store.parent.iterdir() if path.name.startswith(".")]

    def raw_bytes(self) -> int:
        """Of all values: texts, 30 integers and a label."""
        return sum(len(path.encode()) + len(line.encode()) + 8 * 31 for path, line in self.lines)
