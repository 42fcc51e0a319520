"""The result of a dry run: ``print(cw.pack(..., limit=200))``."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cordwood.common.html import Printed
from cordwood.common.numbers import clock_text, few_digits, rough_milliseconds
from cordwood.common.tables import folded, section, table, terminal_width
from cordwood.common.text import counted, human, printable
from cordwood.packing.report.startup_cost import advice, counts
from cordwood.store import StoreInspection, plan_lines

_HEADINGS = ("", "a sample", "all", "")
_FIELDS = ("field", "before", "after", "ratio")
_GIVE_WAY = ((3, 12), (0, 12), (3, 0))
_FULL = 0.9  # of the free space: other programs write too
_HARDLY = 0.8  # of the time to preprocess: the difference of two times that near each other is mostly noise


@dataclass(frozen=True, repr=False)
class Estimate(Printed):
    """What packing would cost, by some inputs that were tried.

    ::

        found = cw.pack("photos/", "photos.cordwood", transform=prepare, limit=200)
        print(found)                       # a table, and whether it is worth it
        found.epochs                       # from how many epochs on packing pays off; None: never

    ``inputs`` of ``of_inputs`` were tried, ``samples`` came of them, with ``raw_bytes`` of values that took
    ``stored_bytes``; beside these a store has ``fixed_bytes``, and ``bytes_per_shard`` for every ``shard_bytes``. The
    files they were read from have ``file_bytes``, None where there are no files. Times are seconds a sample on one
    core: ``preprocess_seconds`` to read and transform, ``encode_seconds`` to encode, and ``read_seconds`` to read it
    back in batches of 64. ``starting_seconds`` are those until workers can begin, 0 where
    they do not matter; ``stops_at_failures`` tells whether packing would stop at inputs like those that ``failed``.
    ``notes`` are what else to know, such as inputs of which the first frame alone was read.
    """

    source: str
    dest: str
    of_inputs: int | None
    inputs: int
    samples: int
    dropped: int
    failed: int
    failures: tuple[str, ...]
    preprocess_seconds: float
    encode_seconds: float
    read_seconds: float
    raw_bytes: int
    stored_bytes: int
    torch_save_bytes: int | None
    file_bytes: int | None
    workers: int
    free_bytes: int
    inspection: StoreInspection
    fixed_bytes: int = 0
    bytes_per_shard: int = 0
    shard_bytes: int = 1 << 26
    starting_seconds: float = 0.0
    stops_at_failures: bool = False
    notes: tuple[str, ...] = ()

    # ---- the whole ---------------------------------------------------------------------------------------------------

    @property
    def all_samples(self) -> int | None:
        """Samples that would come of all inputs; None if nobody knows how many there are."""
        return None if self.of_inputs is None else round(self.of_inputs * self.samples / self.inputs)

    @property
    def all_bytes(self) -> int | None:
        """Bytes that the store would take."""
        growing = self._scaled(self.stored_bytes)
        if growing is None:
            return None
        return growing + self.fixed_bytes + max(1, -(-growing // self.shard_bytes)) * self.bytes_per_shard

    @property
    def all_seconds(self) -> float | None:
        """Seconds that packing would take with so many workers, also to start them."""
        if self.all_samples is None:
            return None
        working = self.all_samples * (self.preprocess_seconds + self.encode_seconds) / self.workers
        return working + self.starting_seconds

    @property
    def fits(self) -> bool | None:
        """Whether the store would fit on its disk."""
        return None if self.all_bytes is None else self.all_bytes < self.free_bytes * _FULL

    @property
    def epochs(self) -> float | None:
        """From how many epochs on packing once and reading costs less than preprocessing every time; None: never."""
        saved = self.preprocess_seconds - self.read_seconds
        return (self.preprocess_seconds + self.encode_seconds) / saved if saved > 0 else None

    @property
    def verdict(self) -> str:
        """Whether it is worth it, in words."""
        before, after = rough_milliseconds(self.preprocess_seconds), rough_milliseconds(self.read_seconds)
        times = f"preprocessing {before}, reading back {after} a sample"
        if self.epochs is None:
            return f"not worth packing: reading back costs more than preprocessing ({times})"
        pays_off = f"pays off after about {few_digits(self.epochs)} epochs"
        if self.read_seconds > _HARDLY * self.preprocess_seconds:
            return f"{times}, which is hardly faster: {pays_off}, if at all"
        return f"{times}: {pays_off}"

    @property
    def growth(self) -> float | None:
        """How many times the bytes of the source's files the store would take; None where there are no files."""
        return self.stored_bytes / self.file_bytes if self.file_bytes else None

    def _scaled(self, number: int) -> int | None:
        return None if self.all_samples is None else round(number / self.samples * self.all_samples)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "source": self.source,
            "dest": self.dest,
            "tried": {"inputs": self.inputs, "samples": self.samples, "dropped": self.dropped, "failed": self.failed},
            "failures": list(self.failures),
            "stops_at_failures": self.stops_at_failures,
            "of_inputs": self.of_inputs,
            "samples": self.all_samples,
            "bytes": self.all_bytes,
            "seconds": self.all_seconds,
            "starting_seconds": self.starting_seconds,
            "workers": self.workers,
            "free_bytes": self.free_bytes,
            "fits": self.fits,
            "a_sample": {
                "preprocess_seconds": self.preprocess_seconds,
                "encode_seconds": self.encode_seconds,
                "read_seconds": self.read_seconds,
                "file_bytes": None if self.file_bytes is None else self.file_bytes / self.samples,
                "raw_bytes": self.raw_bytes / self.samples,
                "stored_bytes": self.stored_bytes / self.samples,
                "torch_save_bytes": None if self.torch_save_bytes is None else self.torch_save_bytes / self.samples,
            },
            "epochs": self.epochs,
            "verdict": self.verdict,
            "notes": list(self.notes),
            "fields": [
                {"name": row.name, "plan": row.plan, "before": row.before, "after": row.after, "ratio": row.ratio}
                for row in self.inspection.fields
            ],
        }

    # ---- text --------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        width = terminal_width(120)
        whole = "" if self.of_inputs is None else f" of {self.of_inputs:,}"
        spread = "the first ones" if self.of_inputs is None else "spread evenly"
        lines = [f"dry run: {counted(self.inputs, 'input')}{whole} of {printable(self.source)}, {spread}", ""]
        lines += table([_FIELDS, *self._fields()], width, _GIVE_WAY, right={1, 2, 3})
        lines += [*section("plans", plan_lines(self.inspection), width), ""]
        lines += table([_HEADINGS, *self._rows()], width, _GIVE_WAY, right={1, 2})
        lines += section("failed", [*self.failures], width)
        if self.failed > len(self.failures):
            lines.append(f"          {self.failed:,} failed in all")
        return folded([*lines, "", *self._last_words()])

    def _fields(self) -> Iterator[tuple[str, str, str, str]]:
        for row in self.inspection.fields:
            ratio = "" if row.ratio is None else f"{row.ratio:.1f}x"
            yield printable(row.name), _each(row.before, self.samples), _each(row.after, self.samples), ratio

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        count = "" if self.all_samples is None else f"{self.all_samples:,}"
        dropped = f"{self.dropped:,} of {counted(self.inputs, 'input')} dropped" if self.dropped else ""
        yield "samples", "", count, dropped
        yield "preprocessing", rough_milliseconds(self.preprocess_seconds), "", "read and transformed, on one core"
        yield "encoding", rough_milliseconds(self.encode_seconds), "", ""
        yield "reading back", rough_milliseconds(self.read_seconds), "", "in batches of 64, on one core"
        if self.file_bytes is not None:
            yield "source files", _each(self.file_bytes, self.samples), self._all(self.file_bytes), ""
        yield "values", _each(self.raw_bytes, self.samples), self._all(self.raw_bytes), ""
        if self.torch_save_bytes is not None:
            yield "as .pt files", _each(self.torch_save_bytes, self.samples), self._all(self.torch_save_bytes), ""
        yield "store", _each(self.stored_bytes, self.samples), self._all_stored(), self._space()
        if self.all_seconds is not None:
            yield (
                "time to pack",
                "",
                clock_text(self.all_seconds),
                f"with {counted(self.workers, 'worker')}{self._started()}",
            )

    def _started(self) -> str:
        if self.all_seconds is None or not counts(self.all_seconds, self.starting_seconds):
            return ""
        return f", {clock_text(self.starting_seconds)} of it to start"

    def _all(self, number: int) -> str:
        scaled = self._scaled(number)
        return "" if scaled is None else human(scaled)

    def _all_stored(self) -> str:
        return "" if self.all_bytes is None else human(self.all_bytes)

    def _space(self) -> str:
        return f"{human(self.free_bytes)} free on its disk"

    def _last_words(self) -> Iterator[str]:
        yield from (f"note: {printable(note)}" for note in self.notes)
        if self.failed and self.stops_at_failures:
            yield (
                "packing would stop at the first input that fails: mend or remove such files, or leave them out with "
                'on_error="skip" (--on-error skip)'
            )
        if self.fits is False:
            assert self.all_bytes is not None  # noqa: S101 - for the type checker
            yield (
                f"not enough space: the store would take about {human(self.all_bytes)}, and "
                f"{human(self.free_bytes)} are free where {printable(self.dest)} is to be"
            )
        if self.growth is not None and self.growth > 1:
            yield (
                f"the store would take {few_digits(self.growth)}x the bytes of the files it is made of: that buys "
                "time, not space"
            )
        if self.all_seconds is not None and (told := advice(self.all_seconds, self.starting_seconds, self.workers)):
            yield told
        yield self.verdict


def _each(total: int, samples: int) -> str:
    return human(round(total / samples))
