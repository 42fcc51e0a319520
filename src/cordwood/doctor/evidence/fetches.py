"""How batches are made, over all processes: the cost of each stage, and the functions and lines that take it.

    evidence.fetches.slowest_stage          # "decode"
    evidence.fetches.stage_ms["decode"]     # per batch, in the process that makes it
    evidence.fetches.functions[0].name      # "ImagingDecoder.decode"

Shares come from a few profiled fetches, durations from all the others: a profile makes Python slower.
"""

import linecache
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from cordwood.doctor.evidence.fetch_figures import MOST_FILES, Figures
from cordwood.doctor.evidence.fetch_stages import STAGES, Function
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.storage_device import device_of

TOP = 10  # functions and lines that are kept


@dataclass(frozen=True)
class FetchFunction:
    """A function that works for batches."""

    name: str
    file: str  # "" for a C function
    line: int
    own_ms: float  # per batch
    stage: str


@dataclass(frozen=True)
class Fetches:
    """Times are milliseconds per batch, in the process that makes it."""

    batches: int  # that were timed
    batches_profiled: int
    workers: int  # of the loader; 0: batches are made in the training loop's process
    get_ms: float  # getting the samples of a batch: reading, decoding and transforming
    stage_ms: dict[str, float]  # by the names of STAGES; only "collate" and "transfer" if nothing was profiled
    functions: list[FetchFunction]  # the ten with most own time
    lines: list[tuple[CodeLine, float]]  # the user's lines with most time, libraries that they call included
    bytes_read_per_batch: float | None  # by system calls; None where the system does not say
    disk_bytes_per_batch: float | None  # that a device had to deliver, because they were not in memory
    files: list[str]  # some of those that were opened
    device: str | None  # that holds them
    read_mb_per_s: float | None
    worker_busy_share: float | None  # of the time that a worker lives; None without workers
    sent_bytes_per_batch: float | None  # through the pipe, shared memory aside
    notes: list[str] = field(default_factory=list)  # what could not be seen

    @property
    def total_ms(self) -> float:
        """Of a batch, from the first read to where the training loop has it."""
        return self.get_ms + self.stage_ms["collate"] + self.stage_ms["transfer"]

    @property
    def slowest_stage(self) -> str | None:
        """The stage with the most time; None if the stages could not be told apart."""
        return max(self.stage_ms, key=lambda stage: self.stage_ms[stage]) if self.batches_profiled else None


def merged(figures: Sequence[Figures], damaged: int = 0) -> Fetches | None:
    """All processes' figures together; ``damaged`` says how many could not be read. None if no batch was timed."""
    batches = sum(each.batches for each in figures)
    if not batches:
        return None
    get_ms = sum(each.get_ns for each in figures) / batches / 1e6
    collate_ms = sum(each.collate_ns for each in figures) / batches / 1e6
    profiled = [each for each in figures if each.functions and each.profiled_get_ns]
    functions = _scaled(profiled, get_ms, collate_ms)
    stage_ms = {"collate": collate_ms, "transfer": _transfer_ms(figures)}
    if profiled:
        shares = {stage: sum(own for key, own in functions.items() if key.stage == stage) for stage in STAGES[:3]}
        stage_ms = {**shares, **stage_ms}
    files = list(dict.fromkeys(name for each in figures for name in each.files))[:MOST_FILES]
    read, disk = _read_per_batch(figures)
    workers = [each for each in figures if each.worker >= 0 and each.span_ns]
    sent = sum(each.sent for each in figures)
    return Fetches(
        batches=batches,
        batches_profiled=sum(each.profiled for each in profiled),
        workers=max((each.workers for each in figures), default=0),
        get_ms=get_ms,
        stage_ms=stage_ms,
        functions=_top(functions),
        lines=_lines(figures, get_ms + collate_ms),
        bytes_read_per_batch=read,
        disk_bytes_per_batch=disk,
        files=files,
        device=_device_of(files),
        read_mb_per_s=read / 1e3 / stage_ms["read"] if read and stage_ms.get("read") else None,
        worker_busy_share=sum(map(_busy_ns, workers)) / sum(each.span_ns for each in workers) if workers else None,
        sent_bytes_per_batch=sum(each.sent_bytes for each in figures) / sent if sent else None,
        notes=_notes(figures, damaged),
    )


def _scaled(profiled: Sequence[Figures], get_ms: float, collate_ms: float) -> dict[Function, float]:
    """Own milliseconds per batch by function: shares of a profile, of the time without one."""
    own: Counter[Function] = Counter()
    for each in profiled:
        own.update(each.functions)
    collating = sum(time for function, time in own.items() if function.stage == "collate")
    getting = sum(own.values()) - collating
    return {
        function: time * (collate_ms / collating if function.stage == "collate" else get_ms / getting)
        for function, time in own.items()
        if time
    }


def _top(functions: dict[Function, float]) -> list[FetchFunction]:
    ordered = sorted(functions.items(), key=lambda item: item[1], reverse=True)[:TOP]
    return [FetchFunction(key.name, key.file, key.line, own, key.stage) for key, own in ordered]


def _lines(figures: Sequence[Figures], fetch_ms: float) -> list[tuple[CodeLine, float]]:
    times: Counter[tuple[str, int, str]] = Counter()
    for each in figures:
        times.update(each.lines)
    sampled = sum(each.sampled_ns for each in figures)
    return [
        (CodeLine(file, line, function, linecache.getline(file, line).strip()), own / sampled * fetch_ms)
        for (file, line, function), own in times.most_common(TOP)
    ]


def _transfer_ms(figures: Sequence[Figures]) -> float:
    sent, received = sum(each.sent for each in figures), sum(each.received for each in figures)
    sending = sum(each.sent_ns for each in figures) / sent if sent else 0.0
    receiving = sum(each.received_ns for each in figures) / received if received else 0.0
    return (sending + receiving) / 1e6


def _read_per_batch(figures: Sequence[Figures]) -> tuple[float | None, float | None]:
    watched = sum(each.watched for each in figures)
    if not watched:
        return None, None
    return sum(each.read_chars for each in figures) / watched, sum(each.read_disk for each in figures) / watched


def _busy_ns(figures: Figures) -> int:
    return figures.get_ns + figures.collate_ns + figures.profiled_get_ns + figures.profiled_collate_ns


def _device_of(files: Sequence[str]) -> str | None:
    devices = Counter(device for device in map(device_of, files) if device is not None)
    return devices.most_common(1)[0][0] if devices else None


def _notes(figures: Sequence[Figures], damaged: int) -> list[str]:
    notes = list(dict.fromkeys(each.note for each in figures if each.note))
    if damaged:
        notes.append(f"what {damaged} workers of the loader saw could not be read")
    return notes
