"""Planted faults: whether each is found first and at its line, and whether mending gives what the doctor promised."""

import math
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.doctor.runs import examined, step_ms, validation_ms
from benchmarks.harness.outcome import Cell, Outcome, Settings, Table
from benchmarks.harness.timing import Spread
from tests.doctor.scripts.cases import PATIENTS, Answer, Patient

TITLE = "Planted faults: what the doctor says, and what mending gives"
KEYS = ("doctor-found", "doctor-gain")
ROUNDS = 5
MOST_ROUNDS = 11  # where rounds differ so much that five say too little about what mending gives
SECONDS = 4.0  # that a rule may spend on its trials
WITHIN = 0.25  # of what mending gives
SPREADS = 3.0


@dataclass
class Promise:
    """What the doctor said of one patient, round by round, and what came of mending it."""

    answer: Answer
    said: str
    rounds: int = 0
    predicted: list[float] = field(default_factory=list)  # milliseconds a step
    spreads: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)

    @property
    def gains(self) -> list[float]:
        """What mending gave, round by round."""
        return [before - after for before, after in zip(self.before, self.after, strict=True)]

    @property
    def allowed(self) -> float:
        """How far the promise may be from the gain."""
        gain = statistics.median(self.gains)
        return max(
            WITHIN * abs(gain), SPREADS * math.hypot(statistics.median(self.spreads), standard_error(self.gains))
        )

    @property
    def is_noisy(self) -> bool:
        """Whether what mending gives is not known well enough to judge a promise by."""
        return bool(self.gains) and SPREADS * standard_error(self.gains) > WITHIN * abs(statistics.median(self.gains))

    @property
    def is_kept(self) -> bool:
        """Whether mending gave what was promised."""
        return abs(statistics.median(self.predicted) - statistics.median(self.gains)) <= self.allowed


def measure(settings: Settings) -> Outcome:
    """As it is, under the doctor; then mended, under its timers alone; in turns."""
    table = Table(
        TITLE,
        [("script", "text"), ("what is said of it", "text"), ("found", "text"), ("a step, ms", "ms"),
         ("promised, ms", "ms"), ("mended: a step, ms", "ms"), ("gained, ms", "ms"), ("promise", "text")],
    )  # fmt: skip
    missed = broken = 0
    for patient in PATIENTS.values():
        if patient.needs_bfloat16 and not multiplies_bfloat16_fast():
            table.notes.append(f"Not measured: {patient.script}: this processor has no fast bfloat16 products")
            continue
        rounds = kept(patient, 1 if settings.quick else ROUNDS, 3.0 if settings.quick else SECONDS)
        missed += bool(rounds.missed)
        broken += rounds.promise is not None and bool(rounds.promise.after) and not rounds.promise.is_kept
        table.add(patient.script, *cells(rounds))
    table.notes += [
        f"Found is a fault that came first, at its line, in each of {ROUNDS} runs or more (1 where a run is quick).",
        "Promised is what the first finding says that it saves, in the median of the rounds; gained is the step as it "
        "is less the mended one, both timed by the doctor, round by round. A promise is kept within "
        f"{WITHIN:.0%} of the gain, or within {SPREADS:g} spreads of both measurements. Where rounds differ much there "
        f"are up to {MOST_ROUNDS}.",
        "What is promised of validation is compared with the time of validation, shared out among training steps.",
        "Findings about memory, files and right results promise no time.",
    ]
    return Outcome([table], {"doctor-found": Spread.exact(float(missed)), "doctor-gain": Spread.exact(float(broken))})


@dataclass
class Rounds:
    """All runs of one patient."""

    promises: list[Promise] = field(default_factory=list)  # one for each right way to tell of the fault
    missed: list[str] = field(default_factory=list)  # what was said where the fault did not come first, at its line

    @property
    def promise(self) -> Promise | None:
        """The way that was told most often."""
        return max(self.promises, key=lambda promise: promise.rounds, default=None)

    @property
    def found(self) -> int:
        """In how many runs the fault was told of first."""
        return sum(promise.rounds for promise in self.promises)

    def is_enough(self, wanted: int) -> bool:
        """A promise wants all rounds for itself, but nobody goes on for ever where two ways take turns, or where rounds
        differ."""
        runs = self.found + len(self.missed)
        most = self.promise.rounds if self.promise else 0
        if wanted > 1 and self.promise is not None and self.promise.is_noisy and runs < MOST_ROUNDS:
            return False
        return runs >= wanted and (most + len(self.missed) >= wanted or runs >= 2 * wanted)


def kept(patient: Patient, wanted: int, seconds: float) -> Rounds:
    """All rounds of one patient; those of another right way to tell of the fault are not mixed."""
    rounds = Rounds()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while not rounds.is_enough(wanted):
            report = examined(patient.path, folder, seconds=seconds)
            told = patient.told(report)
            if told is None:
                rounds.missed.append("; ".join(map(said, report["findings"][:2])) or "none")
                continue
            answer, finding = told
            promise = next((each for each in rounds.promises if each.answer is answer), None)
            if promise is None:
                promise = Promise(answer, said(finding))
                rounds.promises.append(promise)
            promise.rounds += 1
            if finding["saves_ms_per_step"] is None or not answer.mend:
                continue
            mended = folder / f"{patient.script}.py"
            mended.write_text(patient.mended(answer, fix=finding["fix"]))
            promise.predicted.append(finding["saves_ms_per_step"])
            promise.spreads.append(finding["spread_ms"] or 0.0)
            promise.before.append(promised_of(answer, report))
            promise.after.append(promised_of(answer, examined(mended, folder, seconds=0)))
    return rounds


def promised_of(answer: Answer, report: dict[str, Any]) -> float:
    """The milliseconds that a change is to make fewer: of a training step, or of validation for each of them."""
    return validation_ms(report) if answer.rule == "eval-without-no-grad" else step_ms(report)


def said(finding: dict[str, Any]) -> str:
    """A finding in short."""
    where = f"line {finding['line']}" if finding["line"] else "no line"
    return f"{finding['rule']}, {where}" + (", information" if finding["level"] == "info" else "")


def cells(rounds: Rounds) -> list[Cell]:
    """A row of the table, behind the script's name."""
    promise = rounds.promise
    runs = rounds.found + len(rounds.missed)
    found = "yes" if not rounds.missed else f"in {rounds.found} of {runs} runs" if rounds.found else "no"
    words = "; or ".join(dict.fromkeys([*(each.said for each in rounds.promises), *rounds.missed]))
    if promise is None or not promise.after:
        return [words, found, None, None, None, None, "no time promised" if promise else ""]
    return [
        words,
        found,
        in_seconds(promise.before),
        in_seconds(promise.predicted),
        in_seconds(promise.after),
        in_seconds(promise.gains),
        "kept" if promise.is_kept else "not kept",
    ]


def in_seconds(milliseconds: list[float]) -> Spread:
    """As the tables hold times."""
    return Spread.of([each / 1e3 for each in milliseconds])


def standard_error(values: list[float]) -> float:
    """Of their median, from their quartiles; nothing can be said of one value.

    Not from how far most lie from it: runs of a script come in two kinds, as its memory happens to lie, and where three
    of five are of one kind the other two would not count at all.
    """
    if len(values) < 2:
        return 0.0
    spread = Spread.of(values)
    return 1.2533 * (spread.high - spread.low) / 1.349 / math.sqrt(len(values))


def multiplies_bfloat16_fast() -> bool:
    """Whether the processor has instructions for it."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
