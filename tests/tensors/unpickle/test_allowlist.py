"""What may be loaded safely is what torch.load(weights_only=True) allows, no more; and no function of it as it is."""

import collections
import io
import warnings
from collections import Counter, OrderedDict
from typing import Any

import pytest
import torch
from torch._weights_only_unpickler import _get_allowed_globals

import cordwood
from cordwood.tensors.unpickle.allowlist import known
from tests.tensors.support.craft import archive, call, glob, one, pickled, storage, text, tup
from tests.tensors.support.same import assert_same

CATALOGUE: dict[str, Any] = {
    "plain": [None, True, -5, 1 << 200, 2.5, "text", (1, (2,)), {"a": {3: []}}],
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"abc"),
    "set": {1, "a", (2, 3)},
    "complex": 1 + 2j,
    "OrderedDict": OrderedDict(b=1, a=2),
    "Counter": Counter("abracadabra"),
    "Size": torch.Size([2, 3]),
    "device": [torch.device("cpu"), torch.device("cuda", 1), torch.device("meta")],
    "dtypes": [torch.float32, torch.bfloat16, torch.uint16, torch.float8_e4m3fn, torch.bool, torch.complex64],
    "layout": [torch.strided, torch.sparse_csr],
    "tensor": torch.arange(6.0).reshape(2, 3).T,
    "integers": torch.arange(6).to(torch.uint32),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "frozen parameter": torch.nn.Parameter(torch.ones(2, dtype=torch.int8), requires_grad=False),
    "conjugate": torch.ones(3, dtype=torch.complex64).conj(),
    "negative": torch.ones(3, dtype=torch.complex64).conj().imag,
    "sparse": torch.eye(3).to_sparse(),
    "meta": torch.empty(3, 4, device="meta"),
    "state_dict": torch.nn.Linear(2, 3).state_dict(),
    "empty": [torch.empty(0), torch.empty(3, 0, 2), torch.tensor(5)],
}


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("kind", CATALOGUE)
def test_what_torch_allows_loads_the_same(kind: str) -> None:
    expected = torch.load(saved(CATALOGUE[kind]), weights_only=True)
    assert_same(cordwood.load(saved(CATALOGUE[kind])), expected)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_compressed_layouts_load_the_same() -> None:
    value = [torch.eye(4).to_sparse_csc(), torch.eye(4).to_sparse_bsr((2, 2))]
    assert_same(cordwood.load(saved(value)), torch.load(saved(value), weights_only=True))


REFUSED = {
    "a function": (call("os.system", "true"), "os.system"),
    "builtins": (call("builtins.eval", "1"), "builtins.eval"),
    "Python 2's": (call("__builtin__.eval", "1"), "builtins.eval"),
    "by STACK_GLOBAL": (text("os") + text("system") + b"\x93", "os.system"),
    "a dotted name": (text("torch") + text("serialization.os.system") + b"\x93", "torch.serialization.os.system"),
    "torch.load": (call("torch.load", "x"), "torch.load"),
    "a submodule's import": (call("torch.serialization.os.system", "x"), "torch.serialization.os.system"),
    "a class of the library": (glob("collections.deque") + b")\x81", "collections.deque"),
    "getattr": (call("builtins.getattr", "x", "y"), "builtins.getattr"),
    "bytes": (call("builtins.bytes", 10**12), "builtins.bytes"),
    "frozenset": (call("builtins.frozenset", [1]), "builtins.frozenset"),
    "dict": (call("builtins.dict"), "builtins.dict"),
    "numpy": (call("numpy._core.multiarray._reconstruct"), "numpy._core.multiarray._reconstruct"),
    "a type is not called": (call("torch.Tensor", 10**12), "a call of torch.Tensor"),
    "a dtype is not called": (call("torch.float32"), "a call of a dtype"),
    "a storage is not made": (call("torch.FloatStorage", 10**12), "a call of FloatStorage"),
    "a set by its class": (glob("builtins.set") + tup([1]) + b"\x81", "a new builtins.set"),
    "a tensor by its class": (glob("torch.Tensor") + b")\x81", "a new torch.Tensor"),
    "a tensor's own state": (call("torch.Size", [1]) + b"}b", "the state of a torch.Size"),
    "a state of no dict": (call("collections.OrderedDict") + b"]b", "the state of a collections.OrderedDict"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_else_a_file_asks_for_is_refused_by_name(kind: str) -> None:
    opcodes, name = REFUSED[kind]
    with pytest.raises(cordwood.FormatError, match=name) as caught:
        cordwood.load(io.BytesIO(one(opcodes)))
    assert "add_safe_globals" in str(caught.value)


def test_the_list_is_torchs() -> None:
    """Names beyond it are those of today's homes of what old files name, and more schemes and dtypes of torch's."""
    theirs, ours = set(_get_allowed_globals()), set(known())
    missing = theirs - ours
    # Tensors of the years before 2017 (torch.FloatTensor ...) and what needs functions of NumPy.
    assert {name for name in missing if not name.endswith("Tensor")} <= {
        "torch._utils._rebuild_device_tensor_from_numpy",
        "torch.storage.TypedStorage",
        *(name for name in missing if name.startswith(("torch.int", "torch.uint"))),
        *(name for name in missing if name.endswith("Storage")),
    }
    calls = {name for name in ours - theirs if hasattr(known()[name], "handler")}
    assert calls <= {"torch._utils._rebuild_tensor", "torch.nested._internal.nested_tensor._rebuild_njt"}


class Own:
    def __init__(self, number: int = 0) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]


class OwnList(collections.UserList[int]):
    pass


def test_what_the_user_allows_is_loaded() -> None:
    value = {"a": Own(5), "t": torch.ones(2)}
    with pytest.raises(cordwood.FormatError, match=r"test_allowlist\.Own"):
        cordwood.load(saved(value))
    with torch.serialization.safe_globals([Own]):
        assert cordwood.load(saved(value))["a"] == Own(5)
    with pytest.raises(cordwood.FormatError, match=r"test_allowlist\.Own"):
        cordwood.load(saved(value))


def test_a_name_that_the_user_gives_is_used() -> None:
    with torch.serialization.safe_globals([(Own, "elsewhere.Thing")]):
        loaded = cordwood.load(io.BytesIO(one(call("elsewhere.Thing", 7))))
    assert loaded == Own(7)


def test_errors_of_allowed_classes_are_format_errors() -> None:
    with torch.serialization.safe_globals([Own]), pytest.raises(cordwood.FormatError, match="TypeError"):
        cordwood.load(io.BytesIO(one(call(f"{Own.__module__}.Own", 1, 2, 3))))


def test_nothing_is_imported_for_a_file() -> None:
    import sys

    assert "antigravity" not in sys.modules
    with pytest.raises(cordwood.FormatError, match="antigravity"):
        cordwood.load(io.BytesIO(one(call("antigravity.fly"))))
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("name", ["torch._inductor", "torch.onnx", "torch.os", "float32", "strided", "__class__"])
def test_a_layout_is_not_looked_up_in_torch(name: str) -> None:
    with pytest.raises(cordwood.FormatError, match="the layout"):
        cordwood.load(io.BytesIO(one(call("torch.serialization._get_layout", name))))


def test_a_storage_by_itself_is_loaded_without_a_word() -> None:
    data = archive(pickled(storage()), {"0": bytes(16)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = cordwood.load(io.BytesIO(data))
    assert isinstance(loaded, torch.storage.TypedStorage)
