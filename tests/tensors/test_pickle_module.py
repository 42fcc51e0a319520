"""The pickle module: torch.save and torch.load through the codecs, trimmed and shared, and without running code."""

import importlib
import io
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cordwood as cw
from cordwood.tensors.unpickle import work_budget
from cordwood.tensors.unpickle.describe import describe
from tests.tensors.support import craft
from tests.tensors.support.objects import CATALOGUE, QUIET, Case, Holder, floats, sparse_matrix
from tests.tensors.support.same import assert_same, assert_shares_alike

pytestmark = QUIET

each_case = pytest.mark.parametrize("case", CATALOGUE.values(), ids=CATALOGUE)


def run(code: str) -> str:
    """What a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def saved(obj: Any, *, legacy: bool = False, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(obj, file, pickle_module=cw.pickle_module, _use_new_zipfile_serialization=not legacy, **options)
    return file.getvalue()


def loaded(data: bytes, **options: Any) -> Any:
    return torch.load(io.BytesIO(data), pickle_module=cw.pickle_module, weights_only=False, **options)


@contextmanager
def trusting(pickled: bytes) -> Iterator[None]:
    """Trust every name that a pickle has, as a user would who made it."""
    names = [name for name in describe(pickled, "x").hooks.globals if name.module.split(".")[0] != "cordwood"]
    values: list[Any] = []
    for name in names:
        value: Any = importlib.import_module(name.module)
        for part in name.name.split("."):
            value = getattr(value, part)
        if isinstance(value, torch.dtype | torch.qscheme | np.ndarray):
            continue
        values.append((value, f"{name.module}.{name.name}"))
    values += [(kind, f"numpy.dtypes.{kind.__name__}") for kind in (np.dtypes.Float64DType, np.dtypes.Float32DType)]
    with torch.serialization.safe_globals(values):
        yield


@each_case
def test_the_catalogue_without_torch_save(case: Case) -> None:
    obj = case.make()
    pickled = cw.pickle_module.dumps(obj)
    if case.safe:
        again = cw.pickle_module.loads(pickled)
    else:
        with trusting(pickled):
            again = cw.pickle_module.loads(pickled)
    assert_same(obj, again, strides=False)
    assert_shares_alike(obj, again)
    assert_same(case.make(), obj)  # and nothing was done to the object itself


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")
@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@each_case
def test_the_catalogue_in_torchs_files(case: Case, legacy: bool, tmp_path: Path) -> None:
    obj = case.make()
    path = tmp_path / "x.pt"
    torch.save(obj, path, pickle_module=cw.pickle_module, _use_new_zipfile_serialization=not legacy)
    if not case.safe and case.name != "no_bytes":  # which needs no name in newer protocols
        with pytest.raises(cw.FormatError, match="not on the list"):
            torch.load(path, pickle_module=cw.pickle_module, weights_only=False)
    with trusting(cw.pickle_module.dumps(obj)):
        again = torch.load(path, pickle_module=cw.pickle_module, weights_only=False)
    assert_same(obj, again, strides=False)
    assert_shares_alike(obj, again)


@each_case
def test_any_protocol_may_be_asked_for(case: Case) -> None:
    obj = case.make()
    for protocol in (None, 0, 2, 4, pickle.HIGHEST_PROTOCOL, -1):
        pickled = cw.pickle_module.dumps(obj, protocol)
        with trusting(pickled):
            assert_same(obj, cw.pickle_module.loads(pickled), strides=False)


# small


def test_a_slice_costs_what_a_clone_does() -> None:
    batch = floats(64, 3, 32, 32)
    for legacy in (False, True):
        assert len(saved(batch[3], legacy=legacy)) == len(saved(batch[3].clone(), legacy=legacy))
    assert len(cw.pickle_module.dumps(batch[3])) < 1.02 * batch[3].numel() * 4


def test_what_is_shared_is_written_once() -> None:
    base = floats(10_000)
    tied = {"embed": base, "head": base.view(100, 100), "again": base.detach()[10:], "same": base}
    assert len(cw.pickle_module.dumps(tied)) < len(cw.pickle_module.dumps(base)) + 1000
    again = loaded(saved(tied))
    again["head"][0, 20] = 5.0
    assert again["embed"][20] == again["again"][10] == 5.0
    assert again["same"] is again["embed"]


def test_two_dtypes_over_one_memory_are_written_once() -> None:
    base = floats(10_000)
    pickled = cw.pickle_module.dumps({"floats": base, "ints": base.view(torch.int32)})
    assert len(pickled) < 41_000
    again = cw.pickle_module.loads(pickled)
    again["ints"][7] = 0
    assert again["floats"][7] == 0.0


def test_what_the_codecs_know_is_smaller() -> None:
    image = torch.arange(256).repeat(100).float() / 255
    assert len(cw.pickle_module.dumps(image)) < image.numel() * 1.1


def typed(tensor: torch.Tensor) -> torch.TypedStorage:
    return torch.TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)


@pytest.mark.parametrize("legacy", [False, True])
def test_bare_storages_still_share_with_tensors(legacy: bool) -> None:
    base = floats(20)
    again = loaded(saved({"storage": typed(base), "tensor": base[4:6]}, legacy=legacy))
    again["storage"][5] = 9.0
    assert again["tensor"][1] == 9.0
    assert len(again["storage"]) == 20


@pytest.mark.parametrize("legacy", [False, True])
def test_a_storage_that_is_met_twice_does_not_stand_for_the_next(legacy: bool) -> None:
    first, second = typed(floats(5, seed=1)), typed(floats(7, seed=2))
    obj = [first, first, second, first, floats(3), second]
    again = loaded(saved(obj, legacy=legacy))
    assert_same(obj, again, strides=False)
    again = cw.pickle_module.loads(cw.pickle_module.dumps([first, first, second]))
    again[0][1] = 4.0
    assert again[1][1] == 4.0
    untyped = floats(5).untyped_storage()
    again = cw.pickle_module.loads(cw.pickle_module.dumps([untyped, untyped, floats(7).untyped_storage()]))
    assert again[0] is again[1]
    assert again[2].nbytes() == 28


# as a pickle module


def test_several_objects_in_one_file(tmp_path: Path) -> None:
    base = floats(100)
    objects: list[Any] = [{"a": base[:10]}, 3, [base[5:20], "text"], None]
    path = tmp_path / "several"
    with path.open("wb") as file:
        for obj in objects:
            cw.pickle_module.dump(obj, file)
        file.write(b"behind")
    with path.open("rb") as file:
        for obj in objects:
            assert_same(obj, cw.pickle_module.load(file), strides=False)
        assert file.read() == b"behind"
        with pytest.raises(EOFError):
            cw.pickle_module.load(file)


def test_one_pickler_for_several_objects() -> None:
    base = floats(100)
    file = io.BytesIO()
    pickler = cw.pickle_module.Pickler(file)
    objects = [[base[:10], typed(base)], [floats(3), base[:10]], [base[5:7], base[:10]]]
    for obj in objects:
        pickler.dump(obj)
    file.seek(0)
    for obj in objects:
        assert_same(obj, cw.pickle_module.load(file), strides=False)


def test_files_that_cannot_seek() -> None:
    class Stream:
        def __init__(self, data: bytes) -> None:
            self.left = data

        def read(self, size: int = -1) -> bytes:
            taken, self.left = self.left, b""
            return taken

    assert_same([floats(4)], cw.pickle_module.load(Stream(cw.pickle_module.dumps([floats(4)]))), strides=False)


def test_what_pickle_modules_have() -> None:
    for name in ("Pickler", "Unpickler", "dump", "dumps", "load", "loads", "PickleError", "UnpicklingError"):
        assert hasattr(cw.pickle_module, name)
    assert cw.pickle_module.HIGHEST_PROTOCOL == pickle.HIGHEST_PROTOCOL
    for obj in (1, "é", b"\x00", [1, (2, {"a": {3}})], 2**100, frozenset("ab")):
        assert cw.pickle_module.loads(cw.pickle_module.dumps(obj)) == obj


@pytest.mark.slow
def test_nothing_else_is_changed_by_importing_it() -> None:
    """In a process of its own: what copy, pickle and the tables behind them do with tensors."""
    code = """
import copy, copyreg, pickle, torch
from multiprocessing.reduction import ForkingPickler
import torch.multiprocessing
base = torch.arange(10.0)
view = base[2:4]
def tables():
    whole = pickle.loads(pickle.dumps(view)).untyped_storage().nbytes()
    return whole, dict(copyreg.dispatch_table), dict(ForkingPickler._extra_reducers), torch.Tensor.__reduce_ex__
before = tables()
import cordwood
cordwood.pickle_module.loads(cordwood.pickle_module.dumps([view, base.untyped_storage()]))
assert before == tables()
copied = copy.deepcopy([view, base])
assert copied[0].untyped_storage().nbytes() == 40
copied[1][2] = 7
assert copied[0][0] == 7
print("as before")
"""
    assert run(code) == "as before\n"


def test_processes_still_share_tensors() -> None:
    code = """
import torch, torch.multiprocessing as mp, cordwood
cordwood.pickle_module.dumps(torch.zeros(3))
def fill(tensor):
    tensor.fill_(7)
shared = torch.zeros(5).share_memory_()
process = mp.get_context("fork").Process(target=fill, args=(shared,))
process.start()
process.join()
queue = mp.get_context("fork").SimpleQueue()
queue.put(shared[1:3])
queue.get().zero_()
print(shared.tolist())
"""
    assert run(code) == "[7.0, 0.0, 0.0, 7.0, 7.0]\n"


# safe


class Evil:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (Path(self.path),))


@pytest.mark.parametrize("legacy", [False, True])
def test_code_is_refused(legacy: bool, tmp_path: Path) -> None:
    path = tmp_path / "written"
    data = saved({"w": floats(3), "evil": Evil(str(path))}, legacy=legacy)
    with pytest.raises(cw.FormatError, match=r"pathlib.*not on the list"):
        loaded(data)
    with pytest.raises(cw.FormatError, match=r"pathlib"):
        cw.pickle_module.loads(cw.pickle_module.dumps(Evil(str(path))))
    with pytest.raises(cw.FormatError, match=r"the global builtins\.eval"):
        cw.pickle_module.loads(craft.pickled(craft.call("builtins.eval", "1")))
    assert not path.exists()


def test_what_the_user_trusts_is_made() -> None:
    obj = {"holder": Holder(tensor=floats(3)), "net": nn.Linear(2, 3)}
    data = saved(obj)
    with pytest.raises(cw.FormatError, match=r"Holder.*add_safe_globals"):
        loaded(data)
    with torch.serialization.safe_globals([Holder, nn.Linear]):
        assert_same(obj, loaded(data), strides=False)
    with pytest.raises(cw.FormatError, match="Holder"):
        loaded(data)


def test_torch_demands_that_safety_is_left_to_us() -> None:
    with pytest.raises(RuntimeError, match="pickle_module"):
        torch.load(io.BytesIO(saved(floats(2))), pickle_module=cw.pickle_module, weights_only=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Detected pickle protocol 5")
@pytest.mark.parametrize("legacy", [False, True])
def test_torch_alone_says_that_it_cannot(legacy: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(saved({"a": floats(3)}, legacy=legacy))
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(path)
    code = f"""
import sys, torch
sys.modules["cordwood"] = None
try:
    torch.load({str(path)!r}, weights_only=False)
except ModuleNotFoundError as error:
    print(error)
"""
    assert "cordwood" in run(code)


@pytest.mark.parametrize("legacy", [False, True])
def test_places_are_mapped_as_torch_does(legacy: bool) -> None:
    obj = {"a": floats(6)[2:5], "b": torch.arange(4)}
    data = saved(obj, legacy=legacy)
    assert_same(obj, loaded(data, map_location="cpu"), strides=False)
    assert_same(obj, loaded(data, map_location={"cpu": "cpu"}), strides=False)
    seen = []

    def stay(storage: Any, location: str) -> Any:
        seen.append(location)
        return storage

    again = loaded(data, map_location=stay)
    assert_same(obj, again, strides=False)
    assert seen == ["cpu", "cpu"]
    meta = loaded(data, map_location="meta")
    assert meta["a"].device.type == "meta"
    assert meta["a"].shape == (3,)


# damaged


def test_damaged_bytes_are_refused() -> None:
    obj = {"floats": floats(200), "zeros": torch.zeros(3000), "sparse": sparse_matrix().to_sparse_csr(), "n": [1, "x"]}
    good = cw.pickle_module.dumps(obj)
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(1500):
        bad = bytearray(good)
        bad[random.integers(len(bad))] ^= 1 << int(random.integers(8))
        try:
            again = cw.pickle_module.loads(bytes(bad))
        except cw.FormatError:
            refused += 1
        except cw.UsageError as error:  # the name of a device, which might be one of another machine
            assert "which this machine does not have" in str(error)
        else:
            if isinstance(again, dict) and isinstance(again.get("floats"), torch.Tensor):
                floats_now = again["floats"]
                if floats_now.shape == (200,) and floats_now.stride() == (1,) and not floats_now.storage_offset():
                    assert torch.equal(floats_now, obj["floats"])  # type: ignore[arg-type]
    assert refused > 1000


def test_cut_bytes_are_refused() -> None:
    good = cw.pickle_module.dumps({"a": floats(20), "b": torch.zeros(300)})
    for end in range(1, len(good)):
        with pytest.raises(cw.FormatError):
            cw.pickle_module.loads(good[:end])


def blob(*arguments: Any) -> bytes:
    storage = craft.call("cordwood.tensors.pickle_module.rebuild_storage", *arguments)
    return craft.pickled(storage, protocol=4)


def raw(offset: Any, content: bytes, **changed: Any) -> tuple[Any, ...]:
    row = {"offset": offset, "nbytes": len(content), "coding": "raw", "data": content, "crc": craft.crc32c(content)}
    row |= changed
    data = row["data"]
    if isinstance(data, bytes):
        row["data"] = b"C" + bytes([len(data)]) + data  # opcodes of bytes
    return tuple(row.values())


def test_a_crafted_storage_is_read() -> None:
    storage = cw.pickle_module.loads(blob("cpu", 8, [raw(0, b"abc"), raw(4, b"defg")]))
    assert bytes(storage.tolist()) == b"abc\0defg"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("cpu", 4),
        ("cpu", -1, []),
        ("cpu", 4, []),
        ("cpu", "4", []),
        (4, 4, []),
        ("cpu", 4, None),
        ("cpu", 4, [3]),
        ("cpu", 4, [raw(0, b"abc")[:4]]),
        ("cpu", 1 << 62, []),
        ("cpu", 1 << 62, [raw(0, b"abcd")]),
        ("cpu", 20, [raw(0, b"abcd")]),
        ("cpu", 4, [raw(1, b"abcd")]),
        ("cpu", 4, [raw(-1, b"abcd")]),
        ("cpu", 8, [raw(0, b"abcd"), raw(2, b"cdef")]),
        ("cpu", 40, [raw(0, b"abcd"), raw(36, b"cdef")]),
        ("cpu", 4, [raw(0, b"abcd", nbytes=3)]),
        ("cpu", 4, [raw(0, b"abcd", crc=0)]),
        ("cpu", 4, [raw(0, b"abcd", crc=None)]),
        ("cpu", 4, [raw(0, b"abcd", coding="frame")]),
        ("cpu", 4, [raw(0, b"abcd", coding="zip")]),
        ("cpu", 4, [raw(0, b"abcd", coding=None)]),
        ("cpu", 4, [raw(0, b"abcd", data="abcd")]),
        ("cpu", 4, [raw(0.0, b"abcd")]),
    ],
    ids=str,
)
def test_wrong_storages_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(cw.FormatError):
        cw.pickle_module.loads(blob(*arguments))


def test_all_storages_together_must_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.tensors.io.memory_budget.physical_memory", lambda: 10_000)
    one = torch.zeros(1500)
    assert len(cw.pickle_module.loads(cw.pickle_module.dumps([one]))) == 1
    with pytest.raises(cw.FormatError, match="the limit is 10000"):
        cw.pickle_module.loads(cw.pickle_module.dumps([one, one.clone()]))


def test_what_the_storages_hold_may_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of sparse tensors are checked, however large they are and however small they were written."""
    monkeypatch.setattr(work_budget, "FREE", 0)
    sparse = torch.sparse_coo_tensor(torch.arange(30_000)[None], torch.ones(30_000), (30_000,), is_coalesced=True)
    assert_same(sparse, cw.pickle_module.loads(cw.pickle_module.dumps(sparse)), strides=False)


def test_a_persistent_id_outside_of_torchs_files_is_refused() -> None:
    with pytest.raises(cw.FormatError, match="persistent id"):
        cw.pickle_module.loads(craft.pickled(craft.storage()))


@pytest.mark.slow
def test_memory_is_that_of_the_trimmed_copies() -> None:
    """In a process of its own, whose peak is its own: a slice of 400 MB takes no copy of them."""
    code = """
import io, resource, torch, cordwood as cw
cw.pickle_module.dumps(torch.arange(1000.0)[3:5])
base = torch.zeros(100_000_000)
base.fill_(1.5)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
file = io.BytesIO()
torch.save([base[:1_000_000], base[500_000:1_000_000]], file, pickle_module=cw.pickle_module)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    assert int(run(code)) < 40_000  # KiB: a tenth of the whole
