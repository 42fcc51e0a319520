"""NumPy's work is tied to a tensor only where the source shows that its values came from there."""

from pathlib import Path

import pytest

from cordwood.doctor.code.numpy_work import OPERATION, array_work
from cordwood.doctor.evidence.evidence import SyncCall
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.stacks import Stacks

SOURCE = """\
def log(x, extra):
    values = x.detach().cpu().numpy()
    scaled = values * 2
    high = np.percentile(scaled, 95)
    other = np.sort(extra)
    return np.percentile(x.numpy(), 5), high, other

def elsewhere(values):
    return np.percentile(values, 95)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    return str(path)


def taken(file: str, line: int, operation: str = ".numpy()", elements: int = 50_000) -> SyncCall:
    return SyncCall(
        CodeLine(file, line), operation, "cpu", 20, 1.0, elements=elements, by_step=dict.fromkeys(range(20), 0.05)
    )


def lines_found(calls: list[SyncCall], file: str, line: int) -> dict[int, float]:
    stacks = Stacks(samples=10, steps=5, array_lines={CodeLine(file, line): 3.0})
    found = array_work(calls, stacks, steps=20)
    assert all(call.operation == OPERATION for call in found)
    return {call.place.line: call.numpy_milliseconds for call in found if call.place is not None}


def test_a_variable_that_comes_from_the_tensor_is_followed(file: str) -> None:
    assert lines_found([taken(file, 2)], file, 4) == {4: 60.0}


def test_the_same_statement_is_enough(file: str) -> None:
    assert lines_found([taken(file, 6)], file, 6) == {6: 60.0}


@pytest.mark.parametrize("line", [5, 9])
def test_other_arrays_and_other_functions_are_none_of_the_tensors_business(file: str, line: int) -> None:
    assert lines_found([taken(file, 2)], file, line) == {}


def test_small_tensors_and_single_numbers_do_not_count(file: str) -> None:
    assert lines_found([taken(file, 2, elements=10)], file, 4) == {}
    assert lines_found([taken(file, 2, operation=".item()")], file, 4) == {}
