"""What a script defines comes back in another process, whatever names it uses beside those of modules."""

import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest
import torch

from cordwood.sources.pickling import dumps

SCRIPT = """
import sys
import torch
from cordwood.sources.pickling import dumps

class Names:
    classes, ops, backends = ["cat", "dog"], 3, ("jpeg",)

def count(names):
    # Names of attributes that torch has modules of: torch.classes, torch.ops, torch.backends.
    return torch.tensor([len(names.classes), names.ops, len(names.backends)]).sum()

sys.stdout.buffer.write(dumps((count, Names())))
"""


@pytest.mark.slow
def test_attributes_called_as_modules_of_torch_are(tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text(SCRIPT)
    ran = subprocess.run([sys.executable, str(tmp_path / "names.py")], check=True, capture_output=True)
    count, names = cloudpickle.loads(ran.stdout)
    assert count(names) == 6


@pytest.mark.parametrize("name", ["torch", "torch.classes", "torch.ops", "torch.backends.cudnn", "os.path"])
def test_modules_come_back_as_themselves(name: str) -> None:
    module = sys.modules[name]
    assert cloudpickle.loads(dumps(module)) is module


def test_large_buffers_can_go_beside() -> None:
    buffers: list[object] = []
    data = dumps(torch.zeros(10_000).numpy(), buffers.append)
    assert len(buffers) == 1
    assert len(data) < 1000
