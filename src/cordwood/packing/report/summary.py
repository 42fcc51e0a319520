"""The result of a packing run: ``print(cw.pack(...))``."""

import io
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from cordwood.common.html import Printed, bars, plain, together
from cordwood.common.numbers import clock_text, factor, rate_text
from cordwood.common.tables import fit, folded, table_line
from cordwood.common.text import counted, human, printable
from cordwood.packing.report.startup_cost import counts
from cordwood.store import open as open_store
from cordwood.store.writing.prepare import Preparer

SAVED_SAMPLES = 16  # that are saved with torch.save to see what it adds


@dataclass(frozen=True, repr=False)
class Packed(Printed):
    """What a run has packed.

    ::

        packed = cw.pack("photos/", "photos.cordwood")
        print(packed)                           # a table
        packed.samples, packed.stored_bytes, packed.ratio

    Numbers are those of the whole job, over all its runs; ``seconds`` are those of this one, before which
    ``resumed_inputs`` and ``resumed_samples`` were there already, and ``starting_seconds`` of them passed until the
    first worker could begin. ``bytes_in`` are those of the files that were read, 0 where there are none; ``raw_bytes``
    those of the samples' values; ``stored_bytes`` those of the store, all files of its folder. ``torch_save_bytes`` is
    what one file a sample would take, by what torch.save adds to the first samples. ``errors`` is the file that tells
    about the inputs that failed. ``more_frames`` inputs are animations, or TIFF files of several pages, of which the
    first frame alone was read.
    """

    path: str
    samples: int
    inputs: int
    dropped: int
    failed: int
    bytes_in: int
    raw_bytes: int
    stored_bytes: int
    shards: int
    seconds: float
    torch_save_bytes: int | None = None
    resumed_inputs: int = 0
    resumed_samples: int = 0
    errors: str | None = None
    part: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()
    starting_seconds: float = 0.0
    more_frames: int = 0

    @property
    def ratio(self) -> float | None:
        """Bytes of the values for one stored byte."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else None

    @property
    def samples_per_second(self) -> float | None:
        """Of this run, from when the first worker could begin; None if there was nothing left to pack."""
        made, seconds = self.samples - self.resumed_samples, self.seconds - self.starting_seconds
        return made / seconds if made and seconds > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = asdict(self)
        return {**found, "notes": list(self.notes), "ratio": self.ratio, "samples_per_second": self.samples_per_second}

    def _repr_html_(self) -> str:
        sizes = (
            ("bytes in", self.bytes_in),
            ("torch.save", self.torch_save_bytes or 0),
            ("values", self.raw_bytes),
            ("store", self.stored_bytes),
        )
        drawn = bars([(name, nbytes, human(nbytes)) for name, nbytes in sizes if nbytes])
        return together([plain(str(self)), drawn])

    def __str__(self) -> str:
        rows = [row for row in self._rows() if row[1] or not row[0]]
        widths = fit([("", "", ""), *rows], 100, ())
        part = "" if self.part is None else f", part {self.part[0]} of {self.part[1]}"
        lines = [f"{printable(self.path)}{part}", *(table_line(row, widths, right={1}) for row in rows)]
        lines += [f"note: {printable(note)}" for note in self.notes]
        return folded([*lines, f"next: ds = cw.open({self.path!r})"])

    def _rows(self) -> list[tuple[str, str, str]]:
        rate = self.samples_per_second
        earlier = f"{self.resumed_samples:,} by earlier runs" if self.resumed_inputs else ""
        saved = f"counted by the first {counted(min(self.samples, SAVED_SAMPLES), 'sample')}, saved one by one"
        failures = f"told in {printable(self.errors)}" if self.errors else ""
        return [
            ("samples", f"{self.samples:,}", earlier),
            ("inputs", f"{self.inputs:,}", ""),
            ("dropped", f"{self.dropped:,}" if self.dropped else "", "the transform returned nothing"),
            ("failed", f"{self.failed:,}" if self.failed else "", failures),
            ("bytes in", human(self.bytes_in) if self.bytes_in else "", ""),
            ("bytes of the values", human(self.raw_bytes), ""),
            (
                "torch.save would have taken",
                "" if self.torch_save_bytes is None else human(self.torch_save_bytes),
                saved,
            ),
            ("bytes out", human(self.stored_bytes), f"{counted(self.shards, 'shard')}{self._beside_values()}"),
            *self._beside_source(),
            ("time", clock_text(self.seconds), "" if rate is None else f"{rate_text(rate)} samples/s{self._started()}"),
        ]

    def _started(self) -> str:
        if not counts(self.seconds, self.starting_seconds):
            return ""
        return f", behind {clock_text(self.starting_seconds)} in which workers started"

    def _beside_values(self) -> str:
        beside = _compared(self.stored_bytes, self.raw_bytes, "the values")
        return f", {beside}" if beside else ""

    def _beside_source(self) -> list[tuple[str, str, str]]:
        """A row of its own: a store of photographs is smaller than their values, and larger than their files."""
        beside = _compared(self.stored_bytes, self.bytes_in, "the source files")
        return [("", "", beside)] if beside else []


def frames_note(count: int, inputs: int, example: str | None, *, kept: bool) -> str:
    """What to say of inputs with several frames, of which the first alone was read."""
    such = f" (such as {example})" if example is not None else ""
    has = "has" if count == 1 else "have"
    what = "reading decodes the first one of each" if kept else "the first one of each was read"
    instead = " in place of keep_encoded" if kept else ""
    return (
        f"{count:,} of {counted(inputs, 'input')}{such} {has} more than one frame, and {what}; "
        f'frames="all" (--frames all){instead} gives all of them'
    )


def _compared(stored: int, nbytes: int, whose: str) -> str:
    """What the stored bytes are beside others; nothing if one of them is not known."""
    if not stored or not nbytes:
        return ""
    times = factor(nbytes / stored)
    if times is None:
        return f"about as large as {whose}"
    return f"{times} smaller than {whose}" if stored < nbytes else f"{times} the bytes of {whose}"


def torch_save_bytes(store: Path, samples: int, raw_bytes: int) -> int | None:
    """What a file a sample would take: the bytes of all values, and for each what torch.save adds to the first ones.

    None where that cannot be said: nothing is stored yet, or images are kept as the bytes they came in.
    """
    dataset = open_store(store, threads=1)
    if not len(dataset) or any(field.keep_encoded for field in dataset.reader.shards.manifests[0].fields):
        return None
    preparer = Preparer(dataset.schema)
    added = []
    for sample in islice(dataset, SAVED_SAMPLES):
        added.append(saved_bytes(sample) - preparer.prepare(sample).nbytes)
    return raw_bytes + samples * sum(added) // len(added)


def saved_bytes(sample: Any) -> int:
    """The size of a file that torch.save writes."""
    file = io.BytesIO()
    torch.save(sample, file)
    return len(file.getbuffer())
