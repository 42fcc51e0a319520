"""The names of the files of an export: those of the inputs, with another suffix.

    names = FileNames(store, counts, ".pt", folded=False)
    for name in names:          # one a sample, in order
        ...

``cats/1.jpg`` becomes ``cats/1.pt``, or ``cats/1-0.pt``, ``cats/1-1.pt`` if it has several samples; a sample whose
input has no name is called by its own number, ``00000012.pt``. Where two files would have one name, both keep the
suffix of their inputs (``1.jpg.pt``, ``1.png.pt``), and where that does not help, they get the sample's number, too.

Names are not kept: there may be millions. They are gone through once to find those that collide, by 64-bit hashes, of
which one that is there twice by chance makes a name longer than it need be.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cordwood.errors import FormatError
from cordwood.packing.journal import inputs

_LAST_LEVEL = 2


class _Group(NamedTuple):
    """Samples of one input, or samples that have no names."""

    name: str | None
    samples: int


class FileNames:
    """The names for all samples of a store whose shards have `counts` samples.

    If `folded`, names that differ in nothing but upper and lower case are taken for one, as some file systems do.
    """

    def __init__(self, store: Path, counts: Sequence[int], suffix: str, *, folded: bool) -> None:
        self._store = store
        self._counts = counts
        self._suffix = suffix
        self._folded = folded
        self._levels: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)  # of each input with a name; none yet
        self._parents: set[str] = set()  # folders of the inputs
        self._settle()

    @property
    def longer(self) -> int:
        """How many inputs have files that keep their suffix, so as not to collide."""
        return int((self._levels > 0).sum())

    def __iter__(self) -> Iterator[str]:
        return (name for _, name in self._numbered())

    def _settle(self) -> None:
        """Raise the levels of inputs whose files collide, until none do, or nothing can be done."""
        owners, hashes = self._hashes()
        self._levels = np.zeros(int(owners.max(initial=-1)) + 1, np.uint8)
        taken = np.array([self._hash(folder) for folder in self._folders()], np.int64)
        while True:
            _, inverse, times = np.unique(hashes, return_inverse=True, return_counts=True)
            colliding = (times[inverse] > 1) | np.isin(hashes, taken)
            raised = np.unique(owners[colliding & (owners >= 0)])
            raised = raised[self._levels[raised] < _LAST_LEVEL]
            if not len(raised):
                return
            self._levels[raised] += 1
            owners, hashes = self._hashes()

    def _hashes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """For every file the number of its input among those with names, or -1, and a hash of its name."""
        total = sum(self._counts)
        owners, hashes = np.empty(total, np.int64), np.empty(total, np.int64)
        for number, (owner, name) in enumerate(self._numbered()):
            owners[number], hashes[number] = owner, self._hash(name)
        return owners, hashes

    def _hash(self, name: str) -> int:
        return hash(unicodedata.normalize("NFC", name).casefold() if self._folded else name)

    def _folders(self) -> set[str]:
        """All folders that files are in, and those above them."""
        found: set[str] = set()
        for folder in self._parents:
            while folder and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return found

    def _numbered(self) -> Iterator[tuple[int, str]]:
        owner, number = -1, 0
        levels = self._levels.tobytes()
        for group in self._groups():
            if group.name is None:
                yield from ((-1, f"{one:08d}{self._suffix}") for one in range(number, number + group.samples))
            else:
                owner += 1
                level = levels[owner] if levels else 0
                base = group.name if level else _without_suffix(group.name)
                self._parents.add(group.name.rpartition("/")[0])
                for each in range(group.samples):
                    part = f"-{each}" if group.samples > 1 else ""
                    told = f".{number + each:08d}" if level == _LAST_LEVEL else ""
                    yield owner, f"{base}{part}{told}{self._suffix}"
            number += group.samples

    def _groups(self) -> Iterator[_Group]:
        """The inputs that have samples, each once, also if it goes on in the next shard."""
        last: _Group | None = None
        for shard, count in enumerate(self._counts):
            for group in self._of_shard(shard, count):
                if last is not None and last.name is not None and last.name == group.name:
                    last = _Group(last.name, last.samples + group.samples)
                    continue
                if last is not None:
                    yield last
                last = group
        if last is not None:
            yield last

    def _of_shard(self, shard: int, count: int) -> Iterator[_Group]:
        path = inputs.path_of(self._store, shard)
        if not path.exists():  # it was not packed, but written
            yield _Group(None, count)
            return
        found = 0
        for entry in inputs.read(self._store, shard).entries():
            if entry.samples > 0:
                found += entry.inputs * entry.samples
                if found > count:
                    break
                yield _Group(entry.name, entry.inputs * entry.samples)
        if found != count:
            raise FormatError(
                f"{path}: its inputs have other samples than the {count} of the shard: it is the list of another one; "
                "restore it from a copy"
            )


def _without_suffix(name: str) -> str:
    dot = name.rfind(".")
    return name[:dot] if dot > name.rfind("/") + 1 else name
