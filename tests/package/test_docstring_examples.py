"""Examples in the docstrings of modules fit the signatures in those modules."""

import importlib
from pathlib import Path
from types import ModuleType

import cordwood
from tests.package.docstring_examples import stale_calls

SRC = Path(cordwood.__file__).parent.parent
MODULES = [".".join(path.relative_to(SRC).with_suffix("").parts) for path in sorted(SRC.glob("cordwood/**/[!_]*.py"))]


def test_examples_fit_signatures() -> None:
    assert {name: calls for name in MODULES if (calls := stale_calls(importlib.import_module(name)))} == {}


def test_stale_examples_are_found() -> None:
    module = ModuleType("example", "Doors.\n\n    d = Door(3, wide=True)\n    d.open()\n    d.colour\n    knock(...)")
    code = "class Door:\n    def __init__(self, height): ...\n    def open(self, angle): ...\ndef knock(): ...\n"
    exec(code, vars(module))
    assert stale_calls(module) == [
        "Door(3, wide=True): got an unexpected keyword argument 'wide'",
        "d.open(): missing a required argument: 'angle'",
        "d.colour: there is no such attribute",
    ]
