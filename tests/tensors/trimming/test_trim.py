"""`trim`: the waste goes; values, sharing and everything around the tensors stay."""

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cordwood as cw
from tests.tensors.behaviour.test_property import Drawn, objects, write_through
from tests.tensors.behaviour.test_roundtrip import ALLOWANCE, assert_strides_make_sense
from tests.tensors.support import craft
from tests.tensors.support.objects import QUIET, Case, floats, seeded_net
from tests.tensors.support.same import assert_same, assert_shares_alike
from tests.tensors.support.trimmed import (
    INPUTS,
    check,
    crafted,
    deflated,
    each_case,
    each_input,
    records,
    storages,
    wasteful,
    write,
)

pytestmark = QUIET


# every kind of file


def test_the_waste_goes(tmp_path: Path) -> None:
    source = write(wasteful(), tmp_path / "x.pt")
    result = cw.trim(source, tmp_path / "small.pt")
    assert storages(tmp_path / "small.pt") == {"0": (160 + 60 + 1) * 4}
    assert result.before == source.stat().st_size > 40_000
    assert result.after == (tmp_path / "small.pt").stat().st_size < 4_000
    assert result.saved == result.before - result.after
    assert (result.source, result.target) == (str(source), str(tmp_path / "small.pt"))
    assert result.damaged == []
    assert result.notes == ["1 trimmed record: checksums were not compared, since only what is kept was read"]
    check(wasteful(), tmp_path / "small.pt", weights_only=True)


@pytest.mark.parametrize("large", [False, True])
@each_input
def test_every_kind_of_file(form: str, large: bool, tmp_path: Path) -> None:
    """Also one that is too large to be read whole when it is opened."""
    obj = wasteful()
    if large:
        obj["large"] = torch.arange(400_000)[1000:200_000]
    cw.trim(INPUTS[form](obj, tmp_path / "x.pt"), tmp_path / "small.pt")
    assert storages(tmp_path / "small.pt")["0"] == (160 + 60 + 1) * 4
    assert storages(tmp_path / "small.pt").get("1", 0) == (199_000 * 8 if large else 0)
    check(obj, tmp_path / "small.pt")
    assert_same(obj, cw.load(tmp_path / "small.pt"), strides=False)


@each_input
def test_to_our_own_format_and_zipped_again(form: str, tmp_path: Path) -> None:
    obj = {**wasteful(), "zeros": torch.zeros(5000)}
    source = INPUTS[form](obj, tmp_path / "x.pt")
    for name in ("small.cord", "small.pt.zip"):
        result = cw.trim(source, tmp_path / name)
        assert result.after == (tmp_path / name).stat().st_size < 8_000
        loaded = cw.load(tmp_path / name)
        assert_same(obj, loaded, strides=False)
        assert_shares_alike(obj, loaded)


@pytest.mark.slow
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_frames_may_begin_anywhere(protocol: int, legacy: bool, tmp_path: Path) -> None:
    """Pickles of protocol 4 are cut into frames of 64 KiB, also amid the numbers of a tensor."""
    base = floats(5, 8)
    for shift in range(0, 130, 3 if protocol > 3 else 130):
        obj = {"pad": "p" * (65_100 + shift), "views": [base[1:3, 2:4] for _ in range(12)]}
        path = write(obj, tmp_path / "x.pt", pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy)
        cw.trim(path, tmp_path / "small.pt")
        assert storages(tmp_path / "small.pt") == {"0": 16}
        loaded = torch.load(tmp_path / "small.pt", weights_only=False)
        assert torch.equal(loaded["views"][-1], base[1:3, 2:4])
        assert len({view.data_ptr() for view in loaded["views"]}) == 1


def big_endian(path: Path) -> None:
    base = np.arange(40, dtype=">f4")
    view = craft.tensor("0", 40, offset=10, size=(2, 3), stride=(10, 2))
    crafted(path, view, content={"0": base.tobytes()}, extra={"byteorder": b"big", "version": b"3\n"})


def test_of_a_big_endian_machine(tmp_path: Path) -> None:
    big_endian(tmp_path / "x.pt")
    wanted = torch.arange(40.0).view(4, 10)[1:3, 0:6:2]
    assert torch.equal(torch.load(tmp_path / "x.pt"), wanted)
    cw.trim(tmp_path / "x.pt", tmp_path / "small.pt")
    assert records(tmp_path / "small.pt")["byteorder"] == b"big"
    assert storages(tmp_path / "small.pt") == {"0": 24}
    for load in (torch.load, cw.load):
        assert torch.equal(load(tmp_path / "small.pt"), wanted)
    with pytest.raises(cw.UsageError, match=r"big-endian.*trim to a \.pt"):
        cw.trim(tmp_path / "x.pt", tmp_path / "small.cord")
    assert not (tmp_path / "small.cord").exists()


# everything that people save


@pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")
@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@each_case
def test_the_catalogue_survives(case: Case, legacy: bool, tmp_path: Path) -> None:
    if legacy and case.name in ("nested", "every_dtype", "two_new_dtypes", "complex_kinds", "untyped_storage"):
        pytest.skip("torch cannot read its own file")
    obj = case.make()
    source = write(obj, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    theirs = torch.load(source, weights_only=False)
    first = cw.trim(source, tmp_path / "first.pt")
    loaded = torch.load(tmp_path / "first.pt", weights_only=False)
    assert_same(theirs, loaded, strides=False)
    assert_shares_alike(theirs, loaded)
    assert_strides_make_sense(theirs, loaded)
    if case.safe and not (legacy and case.name == "whole_module"):
        assert_same(theirs, torch.load(tmp_path / "first.pt", weights_only=True), strides=False)
        assert_same(theirs, cw.load(tmp_path / "first.pt"), strides=False)
    # Each storage takes more room in an archive than in a file of the old format: its place in the directory.
    names = (len(records(tmp_path / "first.pt")) * 300) if legacy else 0
    assert first.after <= first.before + ALLOWANCE + names
    assert cw.trim(tmp_path / "first.pt", dry_run=True).saved == 0
    again = cw.trim(tmp_path / "first.pt", tmp_path / "second.pt")
    assert again.saved == 0
    assert (tmp_path / "second.pt").read_bytes() == (tmp_path / "first.pt").read_bytes()


@pytest.mark.slow
@each_case
def test_the_catalogue_in_other_forms(case: Case, tmp_path: Path) -> None:
    obj = case.make()
    source = write(obj, tmp_path / "x.pt")
    theirs = torch.load(source, weights_only=False)
    cw.trim(source, tmp_path / "deflated.pt", compress=True)
    cw.trim(tmp_path / "deflated.pt", tmp_path / "stored.pt", compress=False)
    for name in ("x.pt", "deflated.pt"):
        cw.trim(tmp_path / name, tmp_path / f"{name}.cord")
        cw.trim(tmp_path / name, tmp_path / f"{name}.pt.zip")
    for path in sorted(tmp_path.glob("*")):
        loaded = cw.load(path, weights_only=False)
        assert_same(theirs, loaded, strides=False)
        assert_shares_alike(theirs, loaded)
    for name in ("deflated.pt", "stored.pt"):
        assert_same(theirs, torch.load(tmp_path / name, weights_only=False), strides=False)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=60)
@given(objects(), st.sampled_from([2, 4]), st.booleans(), st.sampled_from([None, True]))
def test_whatever_torch_saved(drawn: Drawn, protocol: int, legacy: bool, compress: bool | None) -> None:
    file = io.BytesIO()
    try:
        torch.save(drawn.obj, file, pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy)
        torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    except (RuntimeError, AttributeError):
        return  # one memory under two dtypes, or a dtype that is newer than the old format
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pt"
        result = cw.trim(io.BytesIO(file.getvalue()), path, compress=compress)
        loaded = torch.load(path, weights_only=False)
        assert cw.trim(path, dry_run=True, compress=compress).after == result.after
        names = len(records(path))
    assert_same(drawn.obj, loaded, strides=False)
    assert_shares_alike(drawn.obj, loaded)
    assert_strides_make_sense(drawn.obj, loaded)
    saved = io.BytesIO()
    cw.save(drawn.obj, saved)
    # What is saved anew is laid out by one storage for memory that torch.save took for several; else it is the same.
    assert result.after <= saved.tell() + ALLOWANCE + 300 * names
    for number in range(len(drawn.writes)):
        for tree in (drawn.obj, loaded):
            write_through(tree, drawn.writes[number : number + 1])
        assert_same(drawn.obj, loaded, strides=False)


@pytest.mark.slow
def test_a_checkpoint_of_a_package_that_is_gone(tmp_path: Path) -> None:
    """Written with a module that does not exist here, trimmed, and read with the module back."""
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "vanished.py").write_text(
        """
import enum, torch
class Mode(enum.Enum):
    FAST = 1
class Config(dict):
    pass
class Stats(list):
    pass
class Slots:
    __slots__ = ("kept",)
class Odd:
    def __init__(self, value): self.value = value
    def __reduce__(self): return (remake, (self.value,), None, None, iter([("a", 1)]))
    def __setitem__(self, key, value): setattr(self, key, value)
def remake(value):
    return Odd(value)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        base = torch.arange(5000.0)
        self.weight = torch.nn.Parameter(base[10:20])
        self.register_buffer("window", base[15:30])
def make():
    base = torch.arange(10_000.0).view(100, 100)
    config = Config(rate=0.5, rows=base[3:5])
    config.note = base[4:6]
    stats = Stats([base[50:60, 7], 3])
    slots = Slots()
    slots.kept = base[4, 10:20]
    return {"net": Net(), "config": config, "stats": stats, "slots": slots, "odd": Odd(base[90]), "mode": Mode.FAST}
def describe(made):
    made["config"]["rows"][1, 12] = -5.0
    made["net"].weight.data[6] = -1.0
    parts = [made["config"]["rows"], made["config"].note, made["stats"][0], made["slots"].kept, made["odd"].value]
    return [p.tolist() for p in parts] + [
        made["net"].window.tolist(), made["net"].weight.tolist(), made["config"]["rate"], made["stats"][1],
        made["odd"].a, made["mode"] is Mode.FAST, type(made["net"].weight).__name__, type(made["config"]).__name__,
    ]
"""
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "gone")}

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", f"import torch, vanished\n{code}"],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(
        """
torch.save(vanished.make(), "zip.pt")
torch.save(vanished.make(), "framed.pt", pickle_protocol=4)
torch.save(vanished.make(), "legacy.pt", _use_new_zipfile_serialization=False)
"""
    )
    names = ("zip.pt", "framed.pt", "legacy.pt")
    for name in names:
        with pytest.raises(ModuleNotFoundError):
            torch.load(tmp_path / name, weights_only=False)
        result = cw.trim(tmp_path / name, tmp_path / f"small-{name}")
        assert result.after < 12_000 < 60_000 < result.before
    paths = [*names, *(f"small-{name}" for name in names)]
    told = run(f"for path in {paths}: print(vanished.describe(torch.load(path, weights_only=False)))").splitlines()
    assert len(told) == 6
    assert len(set(told)) == 1


def test_tied_weights_of_a_whole_model(tmp_path: Path) -> None:
    net = seeded_net()
    net.table = torch.arange(1000)[5:8]
    for legacy in (False, True):
        write(net, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
        cw.trim(tmp_path / "x.pt", tmp_path / "small.pt")
        loaded = torch.load(tmp_path / "small.pt", weights_only=False)
        assert loaded.head.weight is loaded.embed.weight
        assert loaded.table.untyped_storage().nbytes() == 24
        assert_same(net, loaded, strides=False)


# sizes beforehand


@pytest.mark.slow
@pytest.mark.parametrize("legacy", [False, True])
@each_case
def test_the_size_is_known_beforehand(case: Case, legacy: bool, tmp_path: Path) -> None:
    source = write(case.make(), tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    content = source.read_bytes()
    told = cw.trim(source, dry_run=True)
    assert told.target is None
    assert told.before == len(content)
    assert told.after == cw.trim(source, tmp_path / "y.pt").after
    longer = tmp_path / "a much longer name.pt"
    assert cw.trim(source, longer, dry_run=True).after == cw.trim(source, longer).after
    assert source.read_bytes() == content
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("compress", [None, True, False])
def test_the_size_of_a_compressed_file_is_known_beforehand(compress: bool | None, tmp_path: Path) -> None:
    cw.save({"a": torch.zeros(10_000), "b": floats(300)}, tmp_path / "compressed.pt", compress=True)
    write({"a": torch.zeros(10_000)[:5000], "b": floats(300)}, tmp_path / "stored.pt")
    for name in ("compressed.pt", "stored.pt", deflated(tmp_path / "stored.pt").name):
        told = cw.trim(tmp_path / name, dry_run=True, compress=compress).after
        assert told == cw.trim(tmp_path / name, tmp_path / "y.pt", compress=compress).after
        assert (told > 20_000) == (compress is False or (compress is None and name == "stored.pt"))
