"""Functions, loops and statements around a line."""

import ast
from pathlib import Path

from cordwood.doctor.code import syntax

SOURCE = """\
import torch

@torch.no_grad()
def evaluate(batches):
    total = 0
    for batch in batches:
        values = [
            value * 2
            for value in batch
        ]
        while values:
            total += values.pop()
    return total

class Net:
    def forward(self, x):
        def part(y):
            return y
        return part(x)

for epoch in range(3):
    evaluate([])
"""
TREE = ast.parse(SOURCE)


def test_functions() -> None:
    assert getattr(syntax.function_around(TREE, 8), "name", "") == "evaluate"
    assert getattr(syntax.function_around(TREE, 18), "name", "") == "part"
    assert getattr(syntax.function_around(TREE, 19), "name", "") == "forward"
    assert syntax.function_around(TREE, 22) is TREE
    assert [function.name for function in syntax.functions(TREE)] == ["evaluate", "forward", "part"]


def test_a_code_object_begins_at_the_first_decorator() -> None:
    assert getattr(syntax.function_at(TREE, 3), "name", "") == "evaluate"
    assert getattr(syntax.function_at(TREE, 17), "name", "") == "part"


def test_loops_come_innermost_first_and_stay_in_their_function() -> None:
    assert [loop.lineno for loop in syntax.loops_around(TREE, 9)] == [7, 6]
    assert [loop.lineno for loop in syntax.loops_around(TREE, 12)] == [11, 6]
    assert [loop.lineno for loop in syntax.loops_around(TREE, 6)] == [6]
    assert [loop.lineno for loop in syntax.loops_around(TREE, 22)] == [21]
    assert syntax.loops_around(TREE, 18) == []


def test_names() -> None:
    statement = ast.parse("low, rest[0] = numpy.percentile(values, high)").body[0]
    assert syntax.names_read(statement) == {"rest", "numpy", "values", "high"}
    assert syntax.names_written(statement) == {"low"}


def test_files_that_are_missing_or_no_python_have_no_tree(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def (:\n")
    right = tmp_path / "right.py"
    right.write_text("x = 1\n\n  \ny =  2\n")
    assert syntax.tree_of(str(wrong)) is None
    assert syntax.tree_of(str(tmp_path / "none.py")) is None
    assert syntax.tree_of(str(right)) is not None
    assert syntax.source_line(str(right), 4) == "y =  2"
