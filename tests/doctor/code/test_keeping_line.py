"""The line that keeps a tensor, in functions, modules and classes."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cordwood.doctor.code.tensor_holders import Holder, keeping_place

SOURCE = """\
history = {}

class Meter:
    def __init__(self):
        self.total = 0.0

    def update(self, value, count=1):
        self.total += value * count

def record(loss):
    history["loss"].append(loss)

def train(batches):
    losses = []
    total = 0
    running = 0.0
    hidden = None
    stats = {}
    for batch in batches:
        loss, hidden = batch
        losses.append(loss)
        total = total + loss
        running += loss
        stats[batch] = loss
    return losses, total
"""


@pytest.fixture
def script(tmp_path: Path) -> ModuleType:
    path = tmp_path / "train_script.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("train_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_script"] = module
    spec.loader.exec_module(module)
    del sys.modules["train_script"]
    return module


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("losses", "losses.append(loss)"),
        ("total", "total = total + loss"),
        ("running", "running += loss"),
        ("stats[7]", "stats[batch] = loss"),
        ("hidden", "hidden = None"),
    ],
)
def test_a_functions_variable(script: ModuleType, name: str, source: str) -> None:
    place = keeping_place(Holder(name, script.train.__code__, script.__file__ or ""))
    assert place is not None
    assert (place.source, place.function, place.file) == (source, "train", script.__file__)


def test_a_modules_variable_is_changed_by_a_function(script: ModuleType) -> None:
    place = keeping_place(Holder("history['loss']", None, script.__file__ or ""))
    assert place is not None
    assert place.source == 'history["loss"].append(loss)'


def test_an_attribute_is_changed_by_its_class(script: ModuleType) -> None:
    place = keeping_place(Holder("meter.total", script.train.__code__, script.__file__ or "", script.Meter, "total"))
    assert place is not None
    assert place.source == "self.total += value * count"


def test_what_the_source_does_not_show_has_no_place(script: ModuleType) -> None:
    assert keeping_place(Holder("nowhere", script.train.__code__, script.__file__ or "")) is None
    assert keeping_place(Holder("losses", script.train.__code__, "<string>")) is None
