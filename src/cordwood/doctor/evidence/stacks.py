"""Where Python spends its time in a training step: sampled stacks, added up by function and by the user's lines.

    stacks = Stacks.of(samples, interval_ms=2.0, steps=range(8, 40))
    stacks.functions[0].own_ms          # per step, of the function with most own time
    stacks.lines[place]                 # per step, with everything that the line calls outside the user's code
    stacks.write_pstats("train.prof")   # for pstats and snakeviz

A sample stands for the time around it, and all of them together for the time of the steps. A function's own time
holds what it calls in C, since C functions have no Python frame. Samples taken while the step waited for data are in
the file for snakeviz, and nowhere else.
"""

import marshal
import math
import os
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType

from cordwood.common import PACKAGE
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.places import is_users, place_of

_DOCTOR = str(PACKAGE / "doctor") + os.sep
_RUNS = str(PACKAGE / "doctor" / "run" / "script.py")
_MOST_FUNCTIONS = 200  # that are kept; reports show ten
# Packages that compute on arrays of the host: time in them is work that was taken away from the device.
_ARRAY_PACKAGES = ("numpy", "scipy", "sklearn", "pandas")

_PstatsKey = tuple[str, int, str]
_PstatsCall = tuple[int, int, float, float]


@dataclass(frozen=True)
class StackSample:
    """One look at the training thread."""

    step: int
    seconds: float  # that it stands for
    phase: str
    stack: tuple[tuple[CodeType, int], ...]  # innermost first, with the line in each

    def longer_by(self, seconds: float) -> "StackSample":
        """The same look, standing for more time."""
        return replace(self, seconds=self.seconds + seconds)


@dataclass(frozen=True)
class FunctionTime:
    """A function's time in a step, in milliseconds."""

    name: str
    file: str
    line: int
    own_ms: float
    total_ms: float  # with what it calls

    def __str__(self) -> str:
        return f"{self.name} ({self.file}:{self.line})"


@dataclass
class Stacks:
    """Samples of several training steps, added up."""

    samples: int = 0  # not counting those taken while waiting for data
    interval_ms: float = 0.0  # that was aimed at
    seconds: float = 0.0  # that all samples stand for, waiting left out
    steps: int = 0
    functions: list[FunctionTime] = field(default_factory=list)  # most own time first
    lines: dict[CodeLine, float] = field(
        default_factory=dict
    )  # innermost user line -> ms a step, everything below it in
    own_lines: dict[CodeLine, float] = field(default_factory=dict)  # ... with no Python frame below the line
    array_lines: dict[CodeLine, float] = field(default_factory=dict)  # ... inside NumPy and its like
    taken: tuple[StackSample, ...] = ()  # as they were, for the file
    counted: tuple[StackSample, ...] = ()  # those of them that the figures above are made of

    @classmethod
    def of(cls, samples: Iterable[StackSample], interval_ms: float, steps: Collection[int]) -> "Stacks":
        """Add up the samples of these steps; a short step may well have none."""
        taken = tuple(sample for sample in map(_without_doctor, samples) if sample.stack)
        working = tuple(sample for sample in taken if sample.step in steps and sample.phase != "wait")
        count = len(set(steps))
        scale = 1e3 / count if count else 0.0
        own: dict[CodeType, float] = defaultdict(float)
        total: dict[CodeType, float] = defaultdict(float)
        lines: dict[tuple[CodeType, int], float] = defaultdict(float)
        own_lines: dict[tuple[CodeType, int], float] = defaultdict(float)
        array_lines: dict[tuple[CodeType, int], float] = defaultdict(float)
        for sample in working:
            own[sample.stack[0][0]] += sample.seconds
            for code in {code for code, _ in sample.stack}:
                total[code] += sample.seconds
            depth = next((depth for depth, (code, _) in enumerate(sample.stack) if is_users(code)), None)
            if depth is None:
                continue
            line = sample.stack[depth]
            lines[line] += sample.seconds
            if depth == 0:
                own_lines[line] += sample.seconds
            elif any(_computes_on_arrays(code) for code, _ in sample.stack[:depth]):
                array_lines[line] += sample.seconds
        heaviest = sorted(total, key=lambda code: (-own[code], -total[code]))[:_MOST_FUNCTIONS]
        functions = [
            FunctionTime(
                code.co_qualname, code.co_filename, code.co_firstlineno, own[code] * scale, total[code] * scale
            )
            for code in heaviest
        ]
        return cls(
            samples=len(working),
            interval_ms=interval_ms,
            seconds=sum(sample.seconds for sample in working),
            steps=count,
            functions=functions,
            lines=_places(lines, scale),
            own_lines=_places(own_lines, scale),
            array_lines=_places(array_lines, scale),
            taken=taken,
            counted=working,
        )

    def spread_ms(self, ms: float) -> float:
        """The standard error of a time of so many milliseconds a step, from the number of samples that it rests on."""
        if not self.samples or not self.steps:
            return 0.0
        whole = self.seconds * 1e3 / self.steps
        share = min(1.0, ms / whole) if whole else 0.0
        # One sample more or less is the least that can be told apart.
        return whole * max(math.sqrt(share * (1 - share) / self.samples), 1 / self.samples)

    def write_pstats(self, path: str | os.PathLike[str]) -> None:
        """Write all samples as a profile: ``python -m pstats FILE``, ``snakeviz FILE``.

        Calls are counted in samples, since a sampler sees no calls.
        """
        with Path(path).open("wb") as file:
            marshal.dump(_profile(self.taken), file)


def _places(times: dict[tuple[CodeType, int], float], scale: float) -> dict[CodeLine, float]:
    found: dict[CodeLine, float] = defaultdict(float)
    for (code, line), seconds in sorted(times.items(), key=lambda item: -item[1]):
        found[place_of(code, line)] += seconds * scale
    return dict(found)


def _without_doctor(sample: StackSample) -> StackSample:
    """The sample without frames of the doctor, and without those outside the user's outermost one."""
    # What runs the script is no part of it, though the installed command is a file of the user's.
    runs = next((depth for depth, (code, _) in enumerate(sample.stack) if code.co_filename == _RUNS), None)
    stack = [entry for entry in sample.stack[:runs] if not entry[0].co_filename.startswith(_DOCTOR)]
    users = [depth for depth, (code, _) in enumerate(stack) if is_users(code)]
    if users:
        stack = stack[: users[-1] + 1]
    return StackSample(sample.step, sample.seconds, sample.phase, tuple(stack))


def _computes_on_arrays(code: CodeType) -> bool:
    parts = Path(code.co_filename).parts
    return any(package in parts for package in _ARRAY_PACKAGES)


def _profile(
    samples: Iterable[StackSample],
) -> dict[_PstatsKey, tuple[int, int, float, float, dict[_PstatsKey, _PstatsCall]]]:
    """The table that `pstats.Stats` loads: function -> (calls, calls, own, with callees, the same by caller)."""
    own: dict[_PstatsKey, list[float]] = defaultdict(lambda: [0, 0, 0.0, 0.0])
    callers: dict[_PstatsKey, dict[_PstatsKey, list[float]]] = defaultdict(
        lambda: defaultdict(lambda: [0, 0, 0.0, 0.0])
    )
    for sample in samples:
        keys = [(code.co_filename, code.co_firstlineno, code.co_qualname) for code, _ in sample.stack]
        seen: set[_PstatsKey] = set()
        pairs: set[tuple[_PstatsKey, _PstatsKey]] = set()
        for depth, key in enumerate(keys):
            # A function that calls itself is in the stack more than once; its time is counted once.
            if key not in seen:
                seen.add(key)
                _add(own[key], sample.seconds, innermost=depth == 0)
            caller = keys[depth + 1] if depth + 1 < len(keys) else None
            if caller is not None and (key, caller) not in pairs:
                pairs.add((key, caller))
                _add(callers[key][caller], sample.seconds, innermost=depth == 0)
    return {
        key: (
            int(entry[0]),
            int(entry[1]),
            entry[2],
            entry[3],
            {caller: (int(of[0]), int(of[1]), of[2], of[3]) for caller, of in callers[key].items()},
        )
        for key, entry in own.items()
    }


def _add(entry: list[float], seconds: float, innermost: bool) -> None:
    entry[0] += 1
    entry[1] += 1
    entry[2] += seconds if innermost else 0.0
    entry[3] += seconds
