"""Units of inputs that are spread over a source, and the tasks of such units.

    firsts = spread(0, source.count, batch=1, wanted=200)   # numbers of the first inputs of units
    tasks = SpreadTasks(source, firsts, batch=1)            # one task per unit, in the order of `firsts`

One unit comes from each of as many stretches of equal length. Its place in the stretch is drawn at random, with a
fixed seed: a fixed stride would see nothing of what recurs in it, such as every tenth class. The order is such that
every beginning of it is spread over the source, too, so that whoever stops early has still seen all of it.
"""

import random
from collections.abc import Sequence
from itertools import islice

from cordwood.packing.workers.tasks import Tasks
from cordwood.packing.workers.worker import Task
from cordwood.sources import Input, Source

_NEAR = 64  # inputs that are skipped rather than asking the source for its inputs anew


def spread(begin: int, end: int, batch: int, wanted: int) -> list[int]:
    """The first inputs of the units that have about `wanted` of the inputs from `begin` up to `end`."""
    units = -(-(end - begin) // batch)
    stretches = min(units, -(-wanted // batch))
    draw = random.Random(0)  # noqa: S311 - the same units for every worker, part and resumed run
    firsts = [
        begin + batch * draw.randrange(number * units // stretches, (number + 1) * units // stretches)
        for number in range(stretches)
    ]
    bits = max(stretches - 1, 0).bit_length()
    return [firsts[number] for number in sorted(range(stretches), key=lambda each: f"{each:0{bits}b}"[::-1])]


class SpreadTasks(Tasks):
    """Units of a source that need not follow each other; each is a task."""

    def __init__(self, source: Source, firsts: Sequence[int], batch: int) -> None:
        super().__init__(iter(()), firsts[0] if firsts else 0, None, batch)
        units = units_of(source, firsts, batch)
        self._units_left = iter(units)
        behind = [first for first, _ in units[1:]]
        self._behind = {first + len(unit): then for (first, unit), then in zip(units, behind, strict=False)}

    def next(self) -> tuple[Task, list[Input]] | None:
        for first, unit in self._units_left:
            return Task(first, [one.handle for one in unit]), unit
        return None

    def behind(self, end: int) -> int:
        return self._behind.get(end, end)


def units_of(source: Source, firsts: Sequence[int], batch: int) -> list[tuple[int, list[Input]]]:
    """The inputs of the units that begin with these numbers, in the order of `firsts`; empty units are left out."""
    found: dict[int, list[Input]] = {}
    inputs, at = source.inputs(min(firsts, default=0)), min(firsts, default=0)
    for first in sorted(firsts):
        if first - at > _NEAR:
            inputs, at = source.inputs(first), first
        found[first] = list(islice(inputs, first - at, first - at + batch))
        at = first + batch
    return [(first, found[first]) for first in firsts if found[first]]
