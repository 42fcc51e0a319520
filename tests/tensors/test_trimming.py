"""`trim`: the waste goes; values, sharing, and everything that is not understood stay."""

import io
import os
import pickle
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import cordwood as cw
from cordwood.tensors import trimming
from tests.tensors import craft
from tests.tensors.objects import CATALOGUE, QUIET, Case, floats, seeded_net
from tests.tensors.same import assert_same, assert_shares_alike
from tests.tensors.test_property import Drawn, objects, write_through
from tests.tensors.test_roundtrip import ALLOWANCE, assert_strides_make_sense

pytestmark = QUIET

each_case = pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, case in CATALOGUE.items() if case.torch_saves]
)


def wasteful() -> dict[str, torch.Tensor]:
    """Four views of 40 kB; two of them overlap."""
    base = floats(10_000)
    return {"a": base[100:200], "b": base[150:260], "columns": base.view(100, 100)[70:, 3:5], "one": base[4000]}


def write(obj: Any, path: Path, **options: Any) -> Path:
    torch.save(obj, path, **options)
    return path


def records(path: Path) -> dict[str, bytes]:
    """Every record of an archive, by its name inside."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def storages(path: Path) -> dict[str, int]:
    return {
        name.removeprefix("data/"): len(content) for name, content in records(path).items() if name.startswith("data/")
    }


def check(obj: Any, path: Path, *, weights_only: bool = False) -> None:
    """torch reads it, and finds what was there."""
    loaded = torch.load(path, weights_only=weights_only)
    assert_same(obj, loaded, strides=False)
    assert_shares_alike(obj, loaded)


def crafted(path: Path, *opcodes: bytes, content: dict[str, bytes] | None = None, **options: Any) -> Path:
    path.write_bytes(craft.archive(craft.pickled(*opcodes), content or {"0": bytes(range(160))}, **options))
    return path


# every kind of file


def test_the_waste_goes(tmp_path: Path) -> None:
    source = write(wasteful(), tmp_path / "x.pt")
    result = cw.trim(source, tmp_path / "small.pt")
    assert storages(tmp_path / "small.pt") == {"0": (160 + 60 + 1) * 4}
    assert result.before == source.stat().st_size > 40_000
    assert result.after == (tmp_path / "small.pt").stat().st_size < 4_000
    assert result.saved == result.before - result.after
    assert (result.source, result.target) == (str(source), str(tmp_path / "small.pt"))
    assert result.damaged == result.notes == []
    check(wasteful(), tmp_path / "small.pt", weights_only=True)


def zipped_again(path: Path, method: int) -> Path:
    outer = path.with_suffix(".zip")
    with zipfile.ZipFile(outer, "w", method) as archive:
        archive.write(path, "inside.pt")
    return outer


def deflated(path: Path) -> Path:
    """As a tool might repack it."""
    repacked = path.with_name("deflated.pt")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(repacked, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    return repacked


INPUTS: dict[str, Callable[[Any, Path], Path]] = {
    "zip": write,
    "legacy": lambda obj, path: write(obj, path, _use_new_zipfile_serialization=False),
    "deflated": lambda obj, path: deflated(write(obj, path)),
    "zipped again": lambda obj, path: zipped_again(write(obj, path), zipfile.ZIP_DEFLATED),
    "zipped again, stored": lambda obj, path: zipped_again(write(obj, path), zipfile.ZIP_STORED),
    "legacy, zipped again": lambda obj, path: zipped_again(
        write(obj, path, _use_new_zipfile_serialization=False), zipfile.ZIP_DEFLATED
    ),
    **{f"protocol {n}": lambda obj, path, n=n: write(obj, path, pickle_protocol=n) for n in (3, 4, 5)},
    "legacy, protocol 4": lambda obj, path: write(obj, path, pickle_protocol=4, _use_new_zipfile_serialization=False),
}
each_input = pytest.mark.parametrize("form", INPUTS)


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


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("legacy", [False, True])
def test_frames_may_begin_anywhere(protocol: int, legacy: bool, tmp_path: Path) -> None:
    """Pickles of protocol 4 are cut into frames of 64 KiB, also amid the numbers of a tensor."""
    base = floats(5, 8)
    for shift in range(0, 60, 7):
        obj = {"pad": "p" * (65_300 + shift), "views": [base[1:3, 2:4] for _ in range(900)]}
        path = write(obj, tmp_path / "x.pt", pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy)
        cw.trim(path, tmp_path / "small.pt")
        assert storages(tmp_path / "small.pt") == {"0": 16}
        loaded = torch.load(tmp_path / "small.pt", weights_only=False)
        assert torch.equal(loaded["views"][-1], base[1:3, 2:4])
        assert len({view.data_ptr() for view in loaded["views"]}) == 1
        if protocol < 4:
            break


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
    if legacy and case.name in ("nested", "every_dtype", "two_new_dtypes", "complex_kinds"):
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
    folder = Path(os.environ["CORDWOOD_TEST_FOLDER"])
    result = cw.trim(io.BytesIO(file.getvalue()), folder / "x.pt", compress=compress)
    loaded = torch.load(folder / "x.pt", weights_only=False)
    assert_same(drawn.obj, loaded, strides=False)
    assert_shares_alike(drawn.obj, loaded)
    assert_strides_make_sense(drawn.obj, loaded)
    saved = io.BytesIO()
    cw.save(drawn.obj, saved)
    assert result.after <= saved.tell() + ALLOWANCE + (200 * len(records(folder / "x.pt")))
    assert cw.trim(folder / "x.pt", dry_run=True).after <= result.after or compress
    for number in range(len(drawn.writes)):
        for tree in (drawn.obj, loaded):
            write_through(tree, drawn.writes[number : number + 1])
        assert_same(drawn.obj, loaded, strides=False)


@pytest.fixture(autouse=True, scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    os.environ["CORDWOOD_TEST_FOLDER"] = str(tmp_path_factory.mktemp("drawn"))
    yield
    del os.environ["CORDWOOD_TEST_FOLDER"]


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
    stats = Stats([base[:, 7], 3])
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

    for options in ("", ", pickle_protocol=4", ", _use_new_zipfile_serialization=False"):
        run(f"torch.save(vanished.make(), 'x.pt'{options})")
        with pytest.raises(ModuleNotFoundError):
            torch.load(tmp_path / "x.pt", weights_only=False)
        result = cw.trim(tmp_path / "x.pt", tmp_path / "small.pt")
        assert result.after < 12_000 < 60_000 < result.before
        wanted = run("print(vanished.describe(torch.load('x.pt', weights_only=False)))")
        assert run("print(vanished.describe(torch.load('small.pt', weights_only=False)))") == wanted


def test_tied_weights_of_a_whole_model(tmp_path: Path) -> None:
    net = seeded_net()
    net.table = torch.arange(1000)[5:8]  # type: ignore[assignment]
    for legacy in (False, True):
        write(net, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
        cw.trim(tmp_path / "x.pt", tmp_path / "small.pt")
        loaded = torch.load(tmp_path / "small.pt", weights_only=False)
        assert loaded.head.weight is loaded.embed.weight
        assert loaded.table.untyped_storage().nbytes() == 24
        assert_same(net, loaded, strides=False)


# what is not understood is left alone


def view(**options: Any) -> bytes:
    """Two rows of three out of forty floats, every second one."""
    return craft.tensor("0", 40, **{"offset": 10, "size": (2, 3), "stride": (10, 2), **options})


@pytest.mark.parametrize(
    ("opcodes", "kept"),
    [
        ([view()], 24),
        ([view() + b"0" + view()], 160),  # one that was made and dropped
        ([craft.storage("0", 40) + b"0" + view()], 160),  # a storage that was asked for and dropped
        ([craft.value([view(), craft.storage("0", 40)])], 160),  # a storage by itself
        ([craft.value([view(), craft.call("mypackage.use", craft.storage("0", 40), 3)])], 160),
        ([craft.value([view(), craft.call("torch._utils._rebuild_tensor_v2", craft.storage("0", 40))])], 160),
        ([craft.value([view(), {"key": (craft.storage("0", 40), 1)}])], 160),
        ([craft.value([view(), view(size=(2.0, 3))])], 160),
        ([craft.value([view(), view(offset=True)])], 160),
        ([craft.value([view(), view(size=[2, 3])])], 160),
        (
            [craft.value([view(), craft.call("torch._utils._rebuild_tensor", craft.storage("0", 40), 0, (1,), (1,))])],
            28,
        ),
        ([craft.value([view(), view(kind="torch.IntStorage")])], 24),
        ([craft.value([view(), craft.tensor("0", 80, kind="torch.HalfStorage", size=(3,), offset=70)])], 32),
        ([view(offset=b"K\x0ar\x07\x00\x00\x00")], 160),  # an offset in the memo
        ([view(offset=b"N0K\x0a")], 24),  # something that is gone before it
        ([view(offset=b"K\x0aN0")], 160),  # and behind it
        ([view(size=(5, 3), stride=(10, 2))], 160),  # reaches beyond its end
    ],
    ids=range(17),
)
def test_storages_that_anything_else_sees_stay_whole(opcodes: list[bytes], kept: int, tmp_path: Path) -> None:
    path = crafted(tmp_path / "x.pt", *opcodes)
    cw.trim(path, tmp_path / "small.pt")
    assert storages(tmp_path / "small.pt") == {"0": kept}
    if kept == 160:  # nothing was changed
        assert records(tmp_path / "small.pt")["data.pkl"] == records(path)["data.pkl"]


def test_unknown_types_and_dtypes(tmp_path: Path) -> None:
    """A tensor type of a package that is not there is known by torch's function; an unknown dtype is not."""
    arguments = (craft.storage("0", 40), 10, (2, 3), (10, 2), False, craft.EMPTY_HOOKS)
    typed = craft.call(
        "torch._tensor._rebuild_from_type_v2",
        craft.glob("torch._utils._rebuild_tensor_v2"),
        craft.glob("mypackage.Tensor"),
        craft.tup(*arguments),
        {},
    )
    for opcodes, kept in [
        (typed, 24),
        (craft.call("torch._utils._rebuild_tensor_v3", *arguments, craft.glob("torch.float32")), 24),
        (craft.call("torch._utils._rebuild_tensor_v3", *arguments, craft.glob("torch.float77")), 160),
        (craft.call("torch._utils._rebuild_tensor_v3", *arguments, craft.glob("mypackage.float32")), 160),
        (craft.call("torch._utils._rebuild_tensor_v3", *arguments), 160),
        (craft.call("mypackage._rebuild_tensor_v2", *arguments), 160),
    ]:
        crafted(tmp_path / "x.pt", opcodes)
        cw.trim(tmp_path / "x.pt", tmp_path / "small.pt")
        assert storages(tmp_path / "small.pt") == {"0": kept}


def strided_by(stride: bytes, *others: Any, before: bytes = b"") -> bytes:
    return before + craft.value([view(stride=stride), *others])


IN_MEMO = craft.tup(10, 2) + craft.put(5)


@pytest.mark.parametrize(
    ("opcodes", "kept", "strides"),
    [
        (strided_by(IN_MEMO), 24, (3, 1)),
        (strided_by(IN_MEMO, craft.get(5)), 60, (10, 2)),  # used elsewhere as what it is
        (strided_by(IN_MEMO, view(stride=craft.get(5))), 60, (10, 2)),  # by another tensor
        (craft.value([craft.tup(10, 2) + craft.put(5), view(stride=craft.get(5))]), 24, (3, 1)),  # taken from elsewhere
        (strided_by(b"K\x0a" + craft.put(5) + b"K\x02\x86", 3), 60, (10, 2)),  # one of its numbers is in the memo
        (strided_by(b"N0" + craft.tup(10, 2)), 24, (3, 1)),
        (strided_by(craft.tup(10, 2) + b"N0"), 60, (10, 2)),  # and something is done behind it
    ],
    ids=range(7),
)
def test_strides_that_are_used_elsewhere_stay(
    opcodes: bytes, kept: int, strides: tuple[int, ...], tmp_path: Path
) -> None:
    path = crafted(tmp_path / "x.pt", opcodes)
    before = torch.load(path, weights_only=False)
    cw.trim(path, tmp_path / "small.pt")
    assert storages(tmp_path / "small.pt") == {"0": kept}
    after = torch.load(tmp_path / "small.pt", weights_only=False)
    assert_same(before, after, strides=False)
    assert next(one for one in after if isinstance(one, torch.Tensor)).stride() == strides


def test_arguments_that_are_used_elsewhere_stay(tmp_path: Path) -> None:
    """A tuple of arguments that the file also keeps as a value must not change."""
    arguments = craft.tup(craft.storage("0", 40), 10, (2, 3), (10, 2), False, craft.EMPTY_HOOKS) + craft.put(9)
    rebuild = craft.glob("torch._utils._rebuild_tensor_v2")
    for opcodes, kept in [
        (rebuild + arguments + b"R", 24),
        (craft.value([rebuild + arguments + b"R", rebuild + craft.get(9) + b"R"]), 24),  # the same view twice
        (craft.value([rebuild + arguments + b"R", craft.get(9)]), 160),
        (craft.value([rebuild + arguments + b"R", craft.glob("mypackage.f") + craft.get(9) + b"R"]), 160),
    ]:
        path = crafted(tmp_path / "x.pt", opcodes)
        cw.trim(path, tmp_path / "small.pt")
        assert storages(tmp_path / "small.pt") == {"0": kept}
    identity = craft.tup("storage", craft.glob("torch.FloatStorage"), "0", "cpu", 40) + craft.put(9)
    seen = craft.call("torch._utils._rebuild_tensor_v2", identity + b"Q", 0, (3,), (1,), False, craft.EMPTY_HOOKS)
    for opcodes, kept in [
        (seen, 12),
        (craft.value([seen, craft.get(9)]), 160),
        (craft.value([seen, craft.get(9) + b"Q"]), 160),
    ]:
        path = crafted(tmp_path / "x.pt", opcodes)
        cw.trim(path, tmp_path / "small.pt")
        assert storages(tmp_path / "small.pt") == {"0": kept}


def test_types_of_tensors_whose_arguments_are_used_elsewhere(tmp_path: Path) -> None:
    inner = craft.tup(craft.storage("0", 40), 10, (2, 3), (10, 2), False, craft.EMPTY_HOOKS) + craft.put(8)
    outer = craft.tup(craft.glob("torch._utils._rebuild_tensor_v2"), craft.glob("mypackage.T"), inner, {}) + craft.put(
        9
    )
    call = craft.glob("torch._tensor._rebuild_from_type_v2") + outer + b"R"
    for opcodes, kept in [
        (call, 24),
        (craft.value([call, craft.get(8)]), 160),
        (craft.value([call, craft.get(9)]), 160),
    ]:
        cw.trim(crafted(tmp_path / "x.pt", opcodes), tmp_path / "small.pt")
        assert storages(tmp_path / "small.pt") == {"0": kept}


def test_records(tmp_path: Path) -> None:
    """Others' records stay, those that nobody refers to go, and so does what would no longer be true."""
    extra = {
        "version": b"7\n",
        "extra/config.json": b"{}",
        ".data/serialization_id": b"1" * 40,
        ".format_version": b"1",
        ".storage_alignment": b"64",
        "data/": b"",
    }
    path = crafted(
        tmp_path / "x.pt", view(), content={"0": bytes(160), "7": bytes(900)}, extra=extra, prefix="their name"
    )
    cw.trim(path, tmp_path / "small.pt")
    found = records(tmp_path / "small.pt")
    assert found.keys() == {"data.pkl", "byteorder", "data/0", "version", "extra/config.json", ".data/serialization_id"}
    assert found["version"] == b"7\n"
    assert found["extra/config.json"] == b"{}"
    with zipfile.ZipFile(tmp_path / "small.pt") as archive:
        assert all(name.startswith("their name/") for name in archive.namelist())
    assert torch.load(tmp_path / "small.pt").shape == (2, 3)
    assert "extra" not in str(cw.trim(path, tmp_path / "small.cord"))


@pytest.mark.parametrize("location", ["cuda:1", "mps", "cpu"])
def test_locations_stay(location: str, tmp_path: Path) -> None:
    seen = craft.storage("0", 40, location=location)
    tensor = craft.call("torch._utils._rebuild_tensor_v2", seen, 3, (2,), (1,), False, craft.EMPTY_HOOKS)
    cw.trim(crafted(tmp_path / "x.pt", tensor), tmp_path / "small.pt")
    told = []

    def stay(storage: Any, location: str) -> Any:
        told.append(location)
        return storage

    assert torch.load(tmp_path / "small.pt", map_location=stay).untyped_storage().nbytes() == 8
    assert told == [location]


# compressed files


@pytest.mark.parametrize("by", ["save", "trim"])
def test_compressed_files_trimmed_again(by: str, tmp_path: Path) -> None:
    obj = {"a": torch.zeros(30_000), "b": floats(100)}
    if by == "save":
        cw.save(obj, tmp_path / "x.pt", compress=True)
    else:
        write(obj, tmp_path / "plain.pt")
        cw.trim(tmp_path / "plain.pt", tmp_path / "x.pt", compress=True)
    for compress, deflated in [(None, True), (True, True), (False, False)]:
        result = cw.trim(tmp_path / "x.pt", tmp_path / "again.pt", compress=compress)
        assert (result.after < 10_000) == deflated
        check(obj, tmp_path / "again.pt", weights_only=True)
        if deflated:
            assert result.saved == 0
            with pytest.raises(RuntimeError):
                torch.load(tmp_path / "again.pt", mmap=True)
        else:
            assert_same(obj, torch.load(tmp_path / "again.pt", mmap=True))
            assert storages(tmp_path / "again.pt") == {"0": 120_000, "1": 400, "tripwire": 0}
            cw.trim(tmp_path / "again.pt", tmp_path / "back.pt", compress=True)
            with pytest.raises(RuntimeError):
                torch.load(tmp_path / "back.pt", mmap=True)
            check(obj, tmp_path / "back.pt", weights_only=True)
    for name in ("x.cord", "x.pt.zip"):
        cw.trim(tmp_path / "x.pt", tmp_path / name)
        assert_same(obj, cw.load(tmp_path / name), strides=False)


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("legacy", [False, True])
def test_a_tripwire_is_laid_into_any_pickle(protocol: int, legacy: bool, tmp_path: Path) -> None:
    obj = [torch.zeros(50_000)[:20_000], nn.Parameter(floats(3)), torch.zeros(50).to(torch.float8_e5m2)][
        : 2 if legacy else 3
    ]
    write(obj, tmp_path / "x.pt", pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy)
    cw.trim(tmp_path / "x.pt", tmp_path / "small.pt", compress=True)
    with pytest.raises(RuntimeError):
        torch.load(tmp_path / "small.pt", mmap=True, weights_only=False)
    check(obj, tmp_path / "small.pt")


def test_a_storage_that_is_only_called_tripwire_is_one(tmp_path: Path) -> None:
    content = {"tripwire": bytes(range(100)) * 40}
    for tensor, kept in [
        (craft.tensor("tripwire", 4000, kind="torch.ByteStorage", size=(4000,)), 4000),
        (craft.tensor("tripwire", 4000, kind="torch.ByteStorage", size=(10,), offset=5), 10),
        (craft.storage("tripwire", 4000, kind="torch.ByteStorage"), 4000),
    ]:
        path = crafted(tmp_path / "x.pt", tensor, content=content)
        for compress in (None, True):
            cw.trim(path, tmp_path / "small.pt", compress=compress)
            assert storages(tmp_path / "small.pt") == {"tripwire": kept}
            before, after = torch.load(path), torch.load(tmp_path / "small.pt")
            assert before.tolist() == after.tolist()


def test_without_a_place_for_a_tripwire_nothing_is_deflated(tmp_path: Path) -> None:
    write(torch.zeros(10_000).untyped_storage(), tmp_path / "x.pt")
    result = cw.trim(tmp_path / "x.pt", tmp_path / "small.pt", compress=True)
    assert result.after > 40_000


# sizes beforehand


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


def test_the_size_of_a_compressed_file_is_told_as_if_it_were_not(tmp_path: Path) -> None:
    cw.save(torch.zeros(10_000), tmp_path / "x.pt", compress=True)
    told = cw.trim(tmp_path / "x.pt", dry_run=True)
    assert told.notes == ["the file is compressed; the size told is without compression"]
    assert told.after == cw.trim(tmp_path / "x.pt", tmp_path / "y.pt", compress=False).after


# damaged


def test_damaged_records_are_reported_and_kept(tmp_path: Path) -> None:
    obj = {"whole": torch.arange(100), "part": torch.arange(1000)[:10]}
    path = write(obj, tmp_path / "x.pt")
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if "/data/" in info.filename:
                length = int.from_bytes(data[info.header_offset + 28 : info.header_offset + 30], "little")
                data[info.header_offset + 30 + len(info.filename) + length + 9] ^= 0xFF
    path.write_bytes(data)
    result = cw.trim(path, tmp_path / "small.pt")
    assert [line.partition(":")[0] for line in result.damaged] == ["x/data/0"]  # of the other not all is read
    assert_same(torch.load(path), torch.load(tmp_path / "small.pt"), strides=False)
    assert zlib.crc32(records(tmp_path / "small.pt")["data/0"])  # the new file's own checksums are right
    assert cw.trim(tmp_path / "small.pt", tmp_path / "again.pt").damaged == []


def test_files_without_checksums_are_not_damaged(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        write({"a": torch.arange(100), "b": torch.zeros(30)}, tmp_path / "x.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert cw.trim(tmp_path / "x.pt", tmp_path / "small.pt").damaged == []


@pytest.mark.parametrize(
    "opcodes",
    [
        view(size=(-2, 3)),
        view(offset=-1),
        view(stride=(-1, 1)),
        craft.tensor("1", 40),
        craft.tensor("0", 41),
        craft.tensor("0", "40"),
        craft.tensor("0", 40, kind="torch.StrangeStorage"),
        craft.persistent("storage", 1),
        craft.persistent(),
        craft.value([1]) + b"Q",
        craft.persistent("thing", 1, 2, 3, 4),
        craft.persistent("storage", 1, "0", "cpu", 40),
        b"",
        view() + view(),
    ],
    ids=range(14),
)
def test_pickles_that_make_no_sense_are_refused(opcodes: bytes, tmp_path: Path) -> None:
    path = crafted(tmp_path / "x.pt", opcodes)
    for options in ({"dst": tmp_path / "small.pt"}, {"in_place": True}, {"dry_run": True}):
        with pytest.raises(cw.FormatError):
            cw.trim(path, **options)  # type: ignore[arg-type]
    assert not (tmp_path / "small.pt").exists()


def test_classes_with_their_source_are_no_storages(tmp_path: Path) -> None:
    module = craft.persistent("module", craft.glob("mypackage.Net"), "net.py", "class Net: ...")
    over = craft.call("torch._utils._rebuild_tensor_v2", module, 0, (1,), (1,), False, craft.EMPTY_HOOKS)
    for opcodes in (module, over):
        for data in (craft.legacy(opcodes), craft.archive(craft.pickled(opcodes))):
            (tmp_path / "x.pt").write_bytes(data)
            cw.trim(tmp_path / "x.pt", tmp_path / "small.pt")
            assert b"class Net" in records(tmp_path / "small.pt")["data.pkl"]


# refused


def test_torchscript_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "script.pt"
    path.write_bytes(craft.archive(craft.pickled(view()), {"0": bytes(160)}, extra={"constants.pkl": b"\x80\x02)."}))
    with pytest.raises(cw.FormatError, match="TorchScript archive, which holds a program"):
        cw.trim(path, tmp_path / "small.pt")


def test_formats_without_waste_are_refused(tmp_path: Path) -> None:
    cw.save(floats(3), tmp_path / "x.cord")
    with pytest.raises(cw.UsageError, match=r"x\.cord is a \.cord file, which holds nothing but"):
        cw.trim(tmp_path / "x.cord", tmp_path / "small.pt")
    (tmp_path / "x.safetensors").write_bytes(
        craft.safetensors({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, b"a")
    )
    with pytest.raises(cw.UsageError, match=r"x\.safetensors is a \.safetensors file, whose tensors share nothing"):
        cw.trim(tmp_path / "x.safetensors", tmp_path / "small.pt")
    with pytest.raises(cw.UsageError, match=r"\.safetensors file cannot hold"):
        cw.trim(write(floats(3), tmp_path / "x.pt"), tmp_path / "small.safetensors")
    (tmp_path / "x.txt").write_text("text")
    with pytest.raises(cw.FormatError, match=r"x\.txt"):
        cw.trim(tmp_path / "x.txt", tmp_path / "small.pt")


def test_storages_over_parts_of_others_are_refused(tmp_path: Path) -> None:
    """As torch wrote them in 2016."""
    tensor = craft.legacy_tensor("1", 10, view=("2", 3, 4), size=(4,))
    (tmp_path / "x.pt").write_bytes(craft.legacy(tensor, [("1", 10, bytes(40))]))
    with pytest.raises(cw.FormatError, match="lies over a part of another one"):
        cw.trim(tmp_path / "x.pt", tmp_path / "small.pt")


def test_wrong_use(tmp_path: Path) -> None:
    path = write(wasteful(), tmp_path / "x.pt")
    content = path.read_bytes()
    (tmp_path / "link.pt").symlink_to(path)
    (tmp_path / "folder").mkdir()
    wrong: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("either a second path or in_place", (path,), {}),
        ("either a second path or in_place", (path, tmp_path / "y.pt"), {"in_place": True}),
        ("needs the path", (io.BytesIO(content),), {"in_place": True}),
        ("writes to a path", (path, io.BytesIO()), {}),
        ("would be written over itself", (path, path), {}),
        ("would be written over itself", (path, tmp_path / "folder" / ".." / "x.pt"), {}),
        ("would be written over itself", (path, tmp_path / "link.pt"), {}),
        ("would be written over itself", (tmp_path / "link.pt", path), {}),
        ("is a folder", (path, tmp_path / "folder"), {}),
        ("is a folder", (tmp_path / "folder", tmp_path / "y.pt"), {}),
        ("compress is for .pt", (path, tmp_path / "y.cord"), {"compress": True}),
        ("compressed by the archive", (path, tmp_path / "y.pt.zip"), {"compress": True}),
    ]
    for message, arguments, options in wrong:
        with pytest.raises(cw.UsageError, match=message):
            cw.trim(*arguments, **options)
    with pytest.raises(FileNotFoundError):
        cw.trim(tmp_path / "none.pt", tmp_path / "y.pt")
    assert path.read_bytes() == content
    assert {one.name for one in tmp_path.iterdir()} == {"x.pt", "link.pt", "folder"}


def test_from_a_file_object(tmp_path: Path) -> None:
    path = write(wasteful(), tmp_path / "x.pt")
    with path.open("rb") as file:
        cw.trim(file, tmp_path / "small.pt")
    cw.trim(io.BytesIO(path.read_bytes()), str(tmp_path / "other.pt"))
    assert (tmp_path / "small.pt").read_bytes() == (tmp_path / "other.pt").read_bytes()


# in place


@each_input
def test_in_place(form: str, tmp_path: Path) -> None:
    obj = wasteful()
    path = INPUTS[form](obj, tmp_path / "x.pt")
    path.chmod(0o640)
    result = cw.trim(path, in_place=True)
    assert result.after == path.stat().st_size < 5_000 < result.before or form.startswith(
        ("deflated", "zipped", "legacy, z")
    )
    assert path.stat().st_mode & 0o777 == 0o640
    assert_same(obj, cw.load(path), strides=False)
    content, number = path.read_bytes(), path.stat().st_ino
    again = cw.trim(path, in_place=True)
    assert again.saved == 0
    assert again.notes == ["nothing to trim: the file would not become smaller"]
    assert (path.read_bytes(), path.stat().st_ino) == (content, number)


def test_in_place_through_a_link(tmp_path: Path) -> None:
    path = write(wasteful(), tmp_path / "x.pt")
    (tmp_path / "link.pt").symlink_to("x.pt")
    cw.trim(tmp_path / "link.pt", in_place=True)
    assert (tmp_path / "link.pt").is_symlink()
    assert path.stat().st_size < 4_000


def test_in_place_drops_what_nobody_refers_to(tmp_path: Path) -> None:
    path = crafted(tmp_path / "x.pt", craft.tensor("0", 40, size=(40,)), content={"0": bytes(160), "1": bytes(5000)})
    assert cw.trim(path, in_place=True).saved > 4_000
    assert storages(path) == {"0": 160}


def test_in_place_compresses_and_the_other_way_round(tmp_path: Path) -> None:
    path = write({"a": torch.zeros(10_000)}, tmp_path / "x.pt")
    assert cw.trim(path, in_place=True, compress=True).after < 4_000
    assert cw.trim(path, in_place=True).notes
    assert cw.trim(path, in_place=True, compress=False).after > 40_000
    assert cw.trim(path, in_place=True, compress=False).notes
    check({"a": torch.zeros(10_000)}, path, weights_only=True)


def damage(rewritten: Any, aside: Path, where: bytes) -> None:
    """A byte of what was written changes on the disk."""
    data = bytearray(aside.read_bytes())
    data[data.index(where) + 1] ^= 0x10
    aside.write_bytes(data)
    ORIGINAL(rewritten, aside)


ORIGINAL = trimming.verify


@pytest.mark.parametrize("place", ["storage", "offset", "name", "directory"])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", ["x.pt", "x.cord"])
def test_what_reads_back_differently_is_not_kept(
    place: str, in_place: bool, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = floats(5000)
    path = write([base[1000:1003], base[1100:1200].view(10, 10)[:, 3]], tmp_path / "x.pt")
    content = path.read_bytes()
    kept = base[1000:1003].numpy().tobytes()
    found = {"storage": kept, "offset": b"tQK\x03K\x0a\x85", "name": b"data.pkl", "directory": b"PK\x01\x02"}[place]
    monkeypatch.setattr(trimming, "verify", lambda rewritten, aside: damage(rewritten, aside, found))
    older = tmp_path / "older" / name
    older.parent.mkdir()
    older.write_bytes(b"older")
    with pytest.raises(cw.StorageError, match="nothing was replaced"):
        cw.trim(path, None if in_place else older, in_place=in_place)
    assert path.read_bytes() == content
    assert older.read_bytes() == b"older"
    assert len(list(tmp_path.rglob("*"))) == 3


@pytest.mark.parametrize("when", ["verify", "write"])
def test_an_interrupt_leaves_the_older_file(when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(wasteful(), tmp_path / "x.pt")
    content = path.read_bytes()

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    if when == "verify":
        monkeypatch.setattr(trimming, "verify", interrupt)
    else:
        monkeypatch.setattr("cordwood.tensors.ptwrite._Archive.finish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cw.trim(path, in_place=True)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write({"a": floats(500_000)[:300_000]}, tmp_path / "x.pt")
    content = path.read_bytes()

    def full(fd: int, data: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cordwood.tensors.replace.os.write", full)
    with pytest.raises(
        cw.StorageError, match="No space left on device; nothing was written, the older file is unchanged"
    ):
        cw.trim(path, in_place=True)
    monkeypatch.undo()
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


# little is read


def sparse_file(path: Path, gigabytes: int) -> None:
    """A checkpoint with a storage of so many gigabytes, nearly all of it a hole in the file, as torch lays it out."""
    numel = gigabytes << 28
    pickled = craft.pickled(
        craft.value(
            {
                "rows": craft.tensor("0", numel, offset=1 << 20, size=(5 << 20,), stride=(1,)),
                "one": craft.tensor("0", numel, offset=numel - 1, size=(1,), stride=(1,)),
            }
        )
    )
    with path.open("wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/data.pkl", pickled)
        archive.writestr("x/version", b"3\n")
        archive.start_dir = file.tell()
        info = zipfile.ZipInfo("x/data/0")
        info.file_size = info.compress_size = numel * 4
        info.header_offset = file.tell()
        header = info.FileHeader(zip64=True)
        file.write(header)
        start = file.tell()
        file.seek(start + (4 << 20))
        file.write(np.arange(5 << 20, dtype=np.float32).tobytes())
        file.seek(start + numel * 4 - 4)
        file.write(np.float32(7).tobytes())
        archive.start_dir = file.tell()
        archive.filelist.append(info)
        archive.NameToInfo[info.filename] = info
        archive._didModify = True  # type: ignore[attr-defined]


def test_time_and_memory_follow_what_is_kept(tmp_path: Path) -> None:
    """Of 2 GiB, one percent is reached: what the process holds and has touched of the file stays near that."""
    path = tmp_path / "x.pt"
    sparse_file(path, 2)
    assert path.stat().st_size > 2 << 30
    code = f"""
import resource, sys, torch, cordwood as cw
from cordwood.tensors import trimming
cw.trim({str(write(wasteful(), tmp_path / "warm.pt"))!r}, {str(tmp_path / "warm2.pt")!r})
def read(): return int(open("/proc/self/io").read().split("rchar: ")[1].split()[0])
before, already = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, read()
cw.trim({str(path)!r}, {str(tmp_path / "small.pt")!r})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, (read() - already) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    held, read = map(int, done.stdout.split())
    kept = 20 << 10  # KiB
    assert held < 4 * kept  # the pages of the old file, of the new one, and the copy between them
    assert read < 2 * kept
    assert (tmp_path / "small.pt").stat().st_size < (kept + 4) * 1024
    loaded = torch.load(tmp_path / "small.pt")
    assert torch.equal(loaded["rows"], torch.arange(5 << 20, dtype=torch.float32))
    assert loaded["one"].item() == 7


def test_one_deflated_storage_is_in_memory_at_a_time(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        tensors = [craft.tensor(str(n), 10 << 20, size=(1000,), offset=n) for n in range(8)]
        archive.writestr("x/data.pkl", craft.pickled(craft.value(tensors)))
        archive.writestr("x/version", b"3\n")
        for number in range(8):
            archive.writestr(f"x/data/{number}", bytes([number]) * (40 << 20))
    code = f"""
import resource, cordwood as cw
cw.trim({str(write(wasteful(), tmp_path / "warm.pt"))!r}, {str(tmp_path / "warm2.pt")!r}, compress=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cw.trim({str(tmp_path / "x.pt")!r}, {str(tmp_path / "small.pt")!r})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100 << 10  # KiB; all eight would be 320 MiB
    loaded = torch.load(tmp_path / "small.pt")
    assert [tensor.view(torch.uint8).unique().tolist() for tensor in loaded] == [[number] for number in range(8)]


def test_pickles_of_python_are_compared(tmp_path: Path) -> None:
    """Every byte of the pickle but the numbers stays: also what the standard pickler would write in another way."""
    pickled = craft.pickled(craft.value({"a": view(), "b": b"\x8c\x05hello", "c": b"U\x03old", "d": b"N\x85"}))
    path = tmp_path / "x.pt"
    path.write_bytes(craft.archive(pickled, {"0": bytes(160)}))
    cw.trim(path, tmp_path / "small.pt")
    changed = view(offset=0, stride=b"K\x03K\x01\x86").replace(b"K\x28tQ", b"K\x06tQ")
    wanted = craft.pickled(craft.value({"a": changed, "b": b"\x8c\x05hello", "c": b"U\x03old", "d": b"N\x85"}))
    assert records(tmp_path / "small.pt")["data.pkl"] == wanted
    assert pickle.loads(wanted.replace(view(), b"N").replace(changed, b"N"))["b"] == "hello"
