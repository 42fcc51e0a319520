"""Scripts with nothing wrong in them are told so, and nothing changes: no bit of a loss, no attribute of torch."""

from pathlib import Path

import pytest

from cordwood.doctor.wording import NOTHING
from tests.doctor.scripts.cases import HEALTHY
from tests.doctor.support.runs import SECONDS, bare, examined, run_python

FAST = {"vision_cnn"}
NEEDED = {"lightning_fit": "pytorch_lightning", "transformers_trainer": "transformers"}
# Losses bit for bit are compared where training differs in kind.
COMPARED = {
    "accumulate_gradients",
    "balance_a_pole",
    "gan",
    "lightning_fit",
    "mixed_precision",
    "name_the_language",
    "two_ranks",
    "vision_cnn",
}


@pytest.mark.parametrize(
    "script",
    [pytest.param(path, id=path.stem, marks=() if path.stem in FAST else pytest.mark.slow) for path in HEALTHY],
)
def test_nothing_is_worth_changing(script: Path, tmp_path: Path) -> None:
    if script.stem in NEEDED:
        pytest.importorskip(NEEDED[script.stem])
    for seconds in SECONDS[:2]:
        seen = examined(script, tmp_path, seconds)
        if seen.report["verdict"] == NOTHING:  # a busy moment is no property of the script: a real fault comes again
            break
    assert seen.findings == [], seen.text
    assert seen.report["verdict"] == NOTHING, seen.text
    assert seen.code == 0
    if script.stem in COMPARED:
        assert bare(script, tmp_path) == seen.losses


WATCHED = """
import importlib
import sys
import types

import torch
import torch.utils.data._utils.fetch
import torch.utils.data._utils.worker
import torch.utils.data.dataloader

OPTIMIZERS = importlib.import_module("torch.optim.optimizer")  # torch.optim does not show it
OWNERS = [
    torch, torch.Tensor, torch.autograd, torch.nn.Module, torch.optim.Optimizer, torch.optim.SGD, torch.amp.GradScaler,
    torch.utils.data.DataLoader, torch.utils.data.dataloader._BaseDataLoaderIter,
    torch.utils.data.dataloader._SingleProcessDataLoaderIter, torch.utils.data._utils.fetch._MapDatasetFetcher,
    torch.utils.data._utils.fetch._IterableDatasetFetcher, torch.utils.data._utils.worker, torch.serialization,
    torch.nn.modules.module, OPTIMIZERS,
]

def attributes():
    return {
        (str(owner), name): value
        for owner in OWNERS
        for name, value in vars(owner).items()
        if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType | type | classmethod)
    }

def hooks():
    return [
        len(found)
        for module in (torch.nn.modules.module, OPTIMIZERS)
        for name, found in sorted(vars(module).items())
        if name.startswith("_global_") and isinstance(found, dict)
    ]

torch.optim.SGD([torch.zeros(1)], lr=0.1)  # the first optimizer makes torch patch itself
before, hooked, opened = attributes(), hooks(), (open, sys.stdout, sys.excepthook)
from cordwood.doctor.run.script import DoctorOptions, run_script

sys.argv = ["doctor"]
for steps in (None, 10):
    code, report = run_script(SCRIPT, [], DoctorOptions(steps=steps, seconds=0.1), module=False)
    after = attributes()
    changed = [name for name, value in before.items() if after.get(name) is not value]
    added = [name for name in after if name not in before]
    print("changed", changed, "added", added, "hooks", hooks() == hooked)
    print("same", opened == (open, sys.stdout, sys.excepthook), "code", code)
"""


@pytest.mark.slow
def test_all_patches_are_undone_at_the_end_and_after_some_steps(tmp_path: Path) -> None:
    script = next(path for path in HEALTHY if path.stem == "vision_cnn")
    done = run_python(["-c", WATCHED.replace("SCRIPT", repr(str(script)))], tmp_path)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("changed", "same"))]
    assert lines == ["changed [] added [] hooks True", "same True code 0"] * 2, done.stdout + done.stderr
