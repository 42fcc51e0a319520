"""`.pt` files are torch's: a process that cannot import cordwood reads all of them with plain torch.load."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cordwood as cw
from tests.tensors.support.objects import CATALOGUE, QUIET

pytestmark = QUIET

ROOT = Path(__file__).parents[3]

READER = '''
import sys, warnings
from pathlib import Path

class Without:
    """Refuses to find the package, wherever it is installed."""
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "cordwood":
            raise ModuleNotFoundError("not in this process", name=name)

sys.meta_path.insert(0, Without())
warnings.simplefilter("ignore")
import torch
from tests.tensors.support.objects import CATALOGUE, as_loaded
from tests.tensors.support.same import assert_same, assert_shares_alike

try:
    import cordwood
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("cordwood can be imported after all")

read = 0
for path in sorted(Path(sys.argv[1]).iterdir()):
    case = CATALOGUE[path.name.split(".")[0]]
    kinds = [{}, {"map_location": "cpu"}, {"map_location": lambda storage, location: storage}]
    if path.name.endswith(".plain.pt"):
        kinds.append({"mmap": True})
    if case.name == "wrapper_subclass":
        del kinds[2]  # torch has no way to map it by a function
    obj = case.make()
    for options in kinds:
        for weights_only in {case.safe, False}:
            loaded = torch.load(path, weights_only=weights_only, **options)
            try:
                assert_same(as_loaded(obj), loaded, strides=False)
                assert_shares_alike(obj, loaded)
            except AssertionError as error:
                raise AssertionError(f"{path.name} with {options}, weights_only={weights_only}") from error
            read += 1
assert not any(name.partition(".")[0] == "cordwood" for name in sys.modules)
print(read)
'''


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", READER, str(folder)]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_torch_alone_reads_every_file(tmp_path: Path) -> None:
    for case in CATALOGUE.values():
        obj = case.make()
        cw.save(obj, tmp_path / f"{case.name}.plain.pt")
        cw.save(obj, tmp_path / f"{case.name}.compressed.pt", compress=True)
        if case.name != "nested":  # torch fills the storages of an old file last, and reads sizes from them before
            cw.save(obj, tmp_path / f"{case.name}.legacy.pt", format="pt-legacy")
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 8 * len(CATALOGUE)


def test_the_process_tells_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "lone_tensor.plain.pt").write_bytes(b"not a file of torch's")
    done = run(tmp_path)
    assert done.returncode != 0
    assert "UnpicklingError" in done.stderr or "RuntimeError" in done.stderr


@pytest.mark.parametrize("format", ["pt", "pt-legacy"])
def test_no_name_of_ours_is_in_the_file(format: Any, tmp_path: Path) -> None:
    for case in CATALOGUE.values():
        cw.save(case.make(), tmp_path / "x.pt", format=format)
        assert b"cordwood" not in (tmp_path / "x.pt").read_bytes()
