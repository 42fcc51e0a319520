"""Runs a tape again, as it was or with other layouts, to measure what a change saves before it is advised.

    as_it_is = Replay(tape)
    mended = as_it_is.with_contiguous({number})
    gain = compare(as_it_is, mended, seconds=5.0)
    gain.saves_ms, gain.spread_ms

A tape is a straight-line program, so downstream operations get the strides that they would get, those of the backward
pass, too, and the copy that makes a tensor contiguous is part of what is measured. The script's own random numbers are
not touched.
"""

from collections.abc import Callable, Iterable, Mapping
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.evidence.tape import Op, Ref, Tape, TapeLeaf, references
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.replay.leaves import Leaves

_FEWEST_PAIRS, _MOST_PAIRS = 5, 61
_DRAWS = 64
_FLOOR = 0.005
_SEED = 7
_MOST_FAILURES = 20
_OP_TIMES_SECONDS = 2.0
_OPAQUE_SHARE = 0.5  # of the recorded time: if more than this cannot be run again, a replay says little


class Replay:
    """A program made from a tape, ready to be run many times."""

    def __init__(
        self,
        tape: Tape,
        changes: Mapping[int, torch.memory_format] | None = None,
        leaves: Leaves | None = None,
    ) -> None:
        self.tape = tape
        self.changes = dict(changes or {})
        self.leaves = leaves if leaves is not None else Leaves(tape)
        self._copies: dict[int, list[int]] = {}  # index of an operation -> leaves to copy just before it
        for number in self.changes:
            leaf = tape.leaves.get(number)
            if leaf is not None and not leaf.is_kept:
                self._copies.setdefault(leaf.first_use, []).append(number)
        self._dead_after = _last_uses(tape)
        self.at = 0  # the operation that runs, or that failed

    def with_contiguous(
        self, numbers: Iterable[int], memory_format: torch.memory_format = torch.contiguous_format
    ) -> "Replay":
        """The same program with a copy put in right after each of these tensors appears.

        A leaf that lives from step to step is copied before anything is timed: mended once, it stays so.
        """
        return Replay(self.tape, {**self.changes, **dict.fromkeys(numbers, memory_format)}, self.leaves)

    def run(self) -> list[float]:
        """Milliseconds of each operation, the copies that were put in included."""
        with self.leaves.ready(self.changes) as tensors, torch.no_grad():
            return self._run(tensors, None)

    def strides(self) -> list[tuple[tuple[int, ...], ...]]:
        """For each operation, the strides of everything that it takes and makes."""
        seen: list[tuple[tuple[int, ...], ...]] = []
        with self.leaves.ready(self.changes) as tensors, torch.no_grad():
            self._run(tensors, seen)
        return seen

    def _run(self, tensors: dict[int, torch.Tensor], seen: list[tuple[tuple[int, ...], ...]] | None) -> list[float]:
        spent = []
        wait = self.leaves.wait
        for index, op in enumerate(self.tape.ops):
            copied = 0
            self.at = index
            for number in self._copies.get(index, ()):
                copied += self._copy(tensors, number)
            if op.is_opaque:
                spent.append((op.nanoseconds + copied) / 1e6)
            else:
                elapsed, result = self._call(op, tensors, wait)
                self._store(op.result, result, tensors)
                del result
                for meta in op.outputs:
                    if meta.number in self.changes and all(meta.number != each.number for each in op.inputs):
                        copied += self._copy(tensors, meta.number)
                spent.append((elapsed + copied) / 1e6)
            if seen is not None:
                seen.append(tuple(tensors[number].stride() for number in references((op.arguments, op.result))))
            for number in self._dead_after[index]:
                tensors.pop(number, None)
        return spent

    def _call(self, op: Op, tensors: dict[int, torch.Tensor], wait: Callable[[], object]) -> tuple[int, Any]:
        arguments, options = op.arguments
        given = [_filled(each, tensors) for each in arguments]
        named = {name: _filled(each, tensors) for name, each in options.items()}
        if self.changes and op.name == "aten::clone" and _needs_no_copy(op, given[0]):
            return 0, given[0]
        start = perf_counter_ns()
        result = op.func(*given, **named)
        wait()
        return perf_counter_ns() - start, result

    def _copy(self, tensors: dict[int, torch.Tensor], number: int) -> int:
        start = perf_counter_ns()
        tensors[number] = tensors[number].contiguous(memory_format=self.changes[number])
        self.leaves.wait()
        return perf_counter_ns() - start

    def _store(self, structure: Any, result: Any, tensors: dict[int, torch.Tensor]) -> None:
        if isinstance(structure, Ref):
            tensors[structure.number] = result
        elif isinstance(structure, list):
            for each, value in zip(structure, result, strict=True):
                self._store(each, value, tensors)


def _filled(structure: Any, tensors: dict[int, torch.Tensor]) -> Any:
    if isinstance(structure, Ref):
        return tensors[structure.number]
    if isinstance(structure, list | tuple):
        return [_filled(each, tensors) for each in structure]
    return structure


def _needs_no_copy(op: Op, given: torch.Tensor) -> bool:
    """Whether the script asked for a contiguous copy (``.contiguous()``, ``.reshape()``) of what now is contiguous."""
    wanted = op.arguments[1].get("memory_format")
    return wanted is torch.contiguous_format and not op.inputs[0].is_contiguous and given.is_contiguous()


def _last_uses(tape: Tape) -> list[list[int]]:
    """For each operation, the tensors that nobody asks for after it: they are freed, as they are in the run."""
    last: dict[int, int] = {}
    for index, op in enumerate(tape.ops):
        for number in references((op.arguments, op.result)):
            last[number] = index
    dead: list[list[int]] = [[] for _ in tape.ops]
    for number, index in last.items():
        dead[index].append(number)
    return dead


def replayable(tape: Tape) -> Replay:
    """The tape as a program that was seen to run through; abstains, with the reason, if it does not."""
    opaque = sum(op.nanoseconds for op in tape.ops if op.is_opaque) / 1e6
    if opaque > _OPAQUE_SHARE * tape.recorded_ms:
        raise Abstain("most of a step's time is in operations that cannot be run again")
    for _ in range(_MOST_FAILURES):
        replay = Replay(tape)
        try:
            replay.run()
        except Abstain:
            raise
        except Exception as error:
            # The values are not the real ones, and not every operation takes all values.
            failed = tape.ops[replay.at]
            why = f"{failed.name}: {type(error).__name__}: {error}"
            failed.is_opaque = True
            for meta in failed.outputs:
                if all(meta.number != each.number for each in failed.inputs):
                    tape.leaves[meta.number] = TapeLeaf(meta, first_use=replay.at)
        else:
            return replay
    raise Abstain(f"the step cannot be replayed: {why}")


def compare(before: Replay, after: Replay, seconds: float) -> Gain:
    """Run both programs of one tape in turns, for about this long and at least five times each.

    Only operations that get or make other strides can differ, so only they are compared: the noise of all
    others stays out. Of each the lowest decile of its times counts, which a busy machine moves least.
    """
    differ = [
        index for index, (one, other) in enumerate(zip(before.strides(), after.strides(), strict=True)) if one != other
    ]
    times: tuple[list[list[float]], list[list[float]]] = ([], [])
    deadline = perf_counter() + seconds
    while len(times[0]) < _FEWEST_PAIRS or (perf_counter() < deadline and len(times[0]) < _MOST_PAIRS):
        # Every other time the other one is first: what runs second finds warm caches.
        for which in (0, 1) if len(times[0]) % 2 else (1, 0):
            times[which].append((before, after)[which].run())
    befores, afters = np.array(times[0]), np.array(times[1])
    saves = float((_typical(befores[:, differ]) - _typical(afters[:, differ])).sum())
    total = float(_typical(befores).sum())
    # A change of less than this is within what two runs of the same program may differ by.
    floor = _FLOOR * float(_typical(befores[:, differ]).sum())
    spread = max(floor, _spread(befores[:, differ], afters[:, differ]))
    return Gain(saves, spread, total, total - saves, len(befores))


def _typical(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each operation (a column), over all runs (rows), when the machine had nothing else to do."""
    return np.percentile(times, 10, axis=0)


def _spread(befores: NDArray[np.float64], afters: NDArray[np.float64]) -> float:
    """The standard error of what is saved, by drawing from the pairs again and again."""
    draws = np.random.default_rng(_SEED).integers(len(befores), size=(_DRAWS, len(befores)))
    saved = [float((_typical(befores[rows]) - _typical(afters[rows])).sum()) for rows in draws]
    return float(np.std(saved))


def op_times(tape: Tape) -> list[float]:
    """Milliseconds of each operation of a tape when nobody looks on; abstains where it cannot be replayed.

    Replayed once, for all who ask.
    """
    if tape.op_ms is None:
        replay = replayable(tape)
        runs: list[list[float]] = []
        deadline = perf_counter() + _OP_TIMES_SECONDS
        while len(runs) < 3 or (perf_counter() < deadline and len(runs) < 25):
            runs.append(replay.run())
        tape.op_ms = _typical(np.array(runs)).tolist()
    return tape.op_ms
