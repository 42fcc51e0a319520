"""Loops that samples lie in: those inside a step, with all that is called in them."""

from pathlib import Path
from types import CodeType

import pytest

from cordwood.doctor.code.python_loops import border_lines, find_loops, plain_lines
from cordwood.doctor.evidence.evidence import LoaderSeen, ModuleSeen
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.stacks import Stacks, StackSample

SOURCE = """\
def weigh(rows):
    total = 0
    for row in rows:
        for value in row:
            total += value * value
    return tensor(total)

def pairs(rows):
    return [weigh(row) for row in rows]

def train(loader, model):
    for batch in loader:
        pairs(batch)
        for name in names:
            log(name)
        for part in batch:
            loss = model(part)
        loss.backward()

train()
"""


@pytest.fixture
def codes(tmp_path: Path) -> dict[str, CodeType]:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    whole = compile(SOURCE, str(path), "exec")
    found = {code.co_name: code for code in whole.co_consts if isinstance(code, CodeType)}
    inner = {code.co_name: code for code in found["pairs"].co_consts if isinstance(code, CodeType)}
    return found | inner


def stacks_of(codes: dict[str, CodeType], *samples: tuple[float, str, list[tuple[str, int]]]) -> Stacks:
    taken = [
        StackSample(8, seconds, phase, tuple((codes[name], line) for name, line in stack))
        for seconds, phase, stack in samples
    ]
    return Stacks.of(taken, 2.0, steps=[8])


def library(name: str) -> CodeType:
    return compile("1", f"/opt/lib/site-packages/{name}.py", "exec")


def test_each_functions_outermost_loop_inside_the_step(codes: dict[str, CodeType]) -> None:
    listcomp = [("<listcomp>", 9)] if "<listcomp>" in codes else []
    deep = [("weigh", 5), *listcomp, ("pairs", 9), ("train", 13)]
    stacks = stacks_of(
        codes,
        (0.006, "other", deep),
        (0.001, "other", [("train", 15)]),
        (0.002, "backward", [("train", 18)]),
        (0.001, "other", [("weigh", 6), *listcomp, ("pairs", 9), ("train", 13)]),
    )
    borders = border_lines(stacks, [], [])
    loops = {(loop.first, loop.last): loop for loop in find_loops(stacks, borders, busy_ms=10.0)}
    assert set(loops) == {(3, 5), (9, 9), (14, 15)}
    assert loops[3, 5].ms == pytest.approx(6.0)
    assert loops[3, 5].own_ms == pytest.approx(6.0)
    assert loops[3, 5].heaviest.line == 5
    assert loops[9, 9].ms == pytest.approx(7.0)
    assert loops[9, 9].own_ms == 0.0
    assert loops[9, 9].shares_time_with(loops[3, 5])
    assert not loops[14, 15].shares_time_with(loops[3, 5])


def test_loops_that_training_is_made_of_are_none(codes: dict[str, CodeType]) -> None:
    stacks = stacks_of(codes, (0.005, "other", [("train", 17)]))
    file = codes["train"].co_filename
    called = [ModuleSeen(None, CodeLine(file, 17))]
    assert [loop.first for loop in find_loops(stacks, set(), 5.0)] == [12]
    assert [loop.first for loop in find_loops(stacks, border_lines(stacks, called, []), 5.0)] == []
    fed = [LoaderSeen(None, CodeLine(file, 12))]
    assert [loop.first for loop in find_loops(stacks, border_lines(stacks, [], fed), 5.0)] == [16]


def test_what_is_called_in_a_loop_belongs_to_it(codes: dict[str, CodeType]) -> None:
    stacks = Stacks.of(
        [StackSample(8, 0.004, "other", ((library("torch/functional"), 1), (codes["weigh"], 5)))], 2.0, steps=[8]
    )
    [loop] = find_loops(stacks, set(), 4.0)
    assert loop.ms == pytest.approx(4.0)
    assert loop.own_ms == 0.0
    file = codes["weigh"].co_filename
    assert loop.holds(CodeLine(file, 4))
    assert not loop.holds(CodeLine(file, 6))
    assert not loop.holds(CodeLine("other.py", 4))


def test_the_lines_around_a_loop_of_plain_python(codes: dict[str, CodeType]) -> None:
    stacks = stacks_of(codes, (0.006, "other", [("weigh", 5)]), (0.002, "other", [("weigh", 6)]))
    [loop] = find_loops(stacks, set(), 8.0)
    lines = plain_lines(stacks, loop, set(), 8.0)
    assert {place.line: ms for place, ms in lines.items()} == pytest.approx({5: 6.0, 6: 2.0})
    training = {(codes["weigh"].co_filename, 6)}
    assert [place.line for place in plain_lines(stacks, loop, training, 8.0)] == [5]
