"""Finds the loops of the user's code that a training step spends its time in, by stack samples.

    loops = find_loops(stacks, border_lines(stacks, modules, loaders), busy_ms=41.0)
    loops[0].ms, loops[0].heaviest

A loop that the steps themselves are rounds of (``for batch in loader``), or that calls the model or a backward pass,
is none of these: what it does is the training. Of nested loops of one function the outermost one inside the step
counts; a loop of another function that is called in it counts by itself, too.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from cordwood.doctor.code.syntax import Loop, covers, function_around, loops_around, tree_of
from cordwood.doctor.evidence.evidence import LoaderSeen, ModuleSeen
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.places import is_users, place_of
from cordwood.doctor.evidence.stacks import Stacks

_TRAINING = ("backward", "optimizer")

Line = tuple[str, int]


@dataclass
class LoopTime:
    """A loop inside a step."""

    file: str
    first: int
    last: int
    ms: float = 0.0  # a step, with everything that is called in it
    own_ms: float = 0.0  # of that, in the loop's own lines with no Python function below them
    lines: dict[CodeLine, float] = field(default_factory=lambda: defaultdict(float))  # of the loop itself, ms a step
    inside: set[CodeLine] = field(default_factory=set)  # the user's innermost lines that were seen below it

    @property
    def where(self) -> str:
        """Its lines, in words."""
        return f"line {self.first}" if self.first == self.last else f"lines {self.first} to {self.last}"

    @property
    def heaviest(self) -> CodeLine:
        """The line of the loop with most time."""
        return max(self.lines, key=lambda place: self.lines[place])

    def shares_time_with(self, other: "LoopTime") -> bool:
        """Whether the two were seen at work on the same lines, one inside the other."""
        return bool(self.inside & other.inside)

    def holds(self, place: CodeLine) -> bool:
        """Whether a line is one of the loop's, or was seen at work below it."""
        return place in self.inside or (place.file == self.file and self.first <= place.line <= self.last)


def border_lines(stacks: Stacks, modules: Iterable[ModuleSeen], loaders: Iterable[LoaderSeen]) -> set[Line]:
    """Lines that training itself is made of: batches come, the model is called, a backward pass runs."""
    places = [seen.place for seen in modules] + [seen.place for seen in loaders]
    found = {(place.file, place.line) for place in places if place is not None}
    for sample in stacks.taken:
        if sample.phase in (*_TRAINING, "wait"):
            found.update((code.co_filename, line) for code, line in sample.stack if is_users(code))
    return found


def find_loops(stacks: Stacks, borders: set[Line], busy_ms: float) -> list[LoopTime]:
    """All loops that samples lie in, the heaviest first. All samples together are a step's time without waiting."""
    found: dict[tuple[str, int, int], LoopTime] = {}
    known: dict[Line, Loop | None] = {}
    scale = busy_ms / stacks.seconds if stacks.seconds else 0.0
    for sample in stacks.counted:
        users = [entry for entry in sample.stack if is_users(entry[0])]
        counted: set[tuple[str, int, int]] = set()
        for code, line in users:
            key = (code.co_filename, line)
            if key not in known:
                known[key] = _outermost_inside(*key, borders)
            loop = known[key]
            if loop is None:
                continue
            bounds = (code.co_filename, loop.lineno, loop.end_lineno or loop.lineno)
            if bounds in counted:
                continue  # a comprehension has a frame of its own
            counted.add(bounds)
            time = found.setdefault(bounds, LoopTime(*bounds))
            ms = sample.seconds * scale
            time.ms += ms
            time.lines[place_of(code, line)] += ms
            time.inside.add(place_of(*users[0]))
            if _is_own(sample.stack[0][0].co_filename, sample.stack[0][1], bounds):
                time.own_ms += ms
    return sorted(found.values(), key=lambda loop: -loop.ms)


def plain_lines(stacks: Stacks, loop: LoopTime, borders: set[Line], busy_ms: float) -> dict[CodeLine, float]:
    """The own time of the lines around a loop that computes in plain Python, in milliseconds a step.

    They are those of the loop's function, which also makes what the loop fills and turns it into a tensor; of the loop
    alone where the function does more than that, such as training.
    """
    first, last = loop.first, loop.last
    tree = tree_of(loop.file)
    function = None if tree is None else function_around(tree, loop.first)
    if isinstance(function, ast.FunctionDef) and not _has_border(loop.file, function, borders):
        first, last = function.lineno, function.end_lineno or function.lineno
    scale = busy_ms / stacks.seconds if stacks.seconds else 0.0
    found: dict[CodeLine, float] = defaultdict(float)
    for sample in stacks.counted:
        code, line = sample.stack[0]
        if _is_own(code.co_filename, line, (loop.file, first, last)):
            found[place_of(code, line)] += sample.seconds * scale
    return dict(found)


def _is_own(file: str, line: int, bounds: tuple[str, int, int]) -> bool:
    return file == bounds[0] and bounds[1] <= line <= bounds[2]


def _outermost_inside(file: str, line: int, borders: set[Line]) -> Loop | None:
    """The outermost loop around a line that no border of a step lies in."""
    tree = tree_of(file)
    if tree is None:
        return None
    inside = [loop for loop in loops_around(tree, line) if not _has_border(file, loop, borders)]
    return inside[-1] if inside else None


def _has_border(file: str, node: ast.AST, borders: set[Line]) -> bool:
    return any(border_file == file and covers(node, border) for border_file, border in borders)
