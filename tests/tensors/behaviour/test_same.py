"""The comparison that the other tests lean on: it passes what is the same, and fails, naming the place, what is not."""

import copy
import io
import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from tests.tensors.support.same import assert_same, assert_shares_alike, named_tensors, sharing

NAN, OTHER_NAN = (struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8 << 48, (0x7FF8 << 48) + 1))
C16, F8 = torch.complex128, torch.float64


class Point(NamedTuple):
    x: Any
    y: Any


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


class Marked(torch.Tensor):
    pass


def through_torch(thing: Any) -> Any:
    """A copy with no object and no memory in common."""
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def marked(mark: str) -> torch.Tensor:
    tensor = torch.ones(2).as_subclass(Marked)
    tensor.mark = mark  # type: ignore[attr-defined]
    return tensor


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))


def quantized(scale: float, axis: int = 0) -> torch.Tensor:
    scales, zero_points = torch.tensor([scale, 0.5], dtype=torch.float64), torch.tensor([0, 1])
    return torch.quantize_per_channel(torch.ones(2, 2), scales, zero_points, axis, torch.qint8)


def sparse(values: list[float], coalesced: bool = False) -> torch.Tensor:
    return torch.sparse_coo_tensor(torch.tensor([[0, 2]]), values, (4,), is_coalesced=coalesced, check_invariants=True)


def jagged(last: float) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.tensor([1.0, 2, last])], layout=torch.jagged)


def matrix(layout: torch.layout, value: float = 1) -> torch.Tensor:
    dense = torch.zeros(4, 4)
    dense[1, 2] = value
    if layout in (torch.sparse_bsr, torch.sparse_bsc):
        return dense.to_sparse(layout=layout, blocksize=(2, 2))
    return dense.to_sparse(layout=layout)


def tied(shared: bool) -> dict[str, torch.Tensor]:
    weight = torch.ones(3)
    return {"encoder": weight, "decoder": weight if shared else weight.clone()}


def holding_itself() -> list[Any]:
    tree: list[Any] = [1]
    tree.append(tree)
    return tree


SAMPLES: dict[str, Callable[[], Any]] = {
    "plain values": lambda: [
        None,
        True,
        1,
        1.5,
        2j,
        "a",
        b"b",
        bytearray(b"c"),
        {1, 2},
        range(3),
        PurePosixPath("a/b"),
    ],
    "torch's values": lambda: [torch.float8_e4m3fn, torch.device("cpu"), torch.strided, torch.Size([1, 2]), torch.relu],
    "containers": lambda: {"a": [1, (2, {"b": deque([3], 4)})], 7: Point(1, torch.ones(2)), ("t", 1): Counter("aab")},
    "a container of itself": holding_itself,
    "defaultdict": lambda: defaultdict(list, {"a": [1]}),
    "NaN and infinity": lambda: [NAN, math.inf, torch.tensor([NAN, -0.0])],
    "numpy": lambda: [np.float32(1.5), np.arange(6).reshape(2, 3), np.array(["a", None], object)],
    "state dict with metadata": lambda: model().state_dict(),
    "module": model,
    "optimizer": lambda: torch.optim.SGD(model().parameters(), 0.1, momentum=0.9).state_dict(),
    "object": lambda: Holder([torch.ones(2)]),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "subclass with state": lambda: marked("a"),
    "0-d": lambda: torch.tensor(3),
    "empty": lambda: torch.empty(3, 0),
    "transposed": lambda: torch.arange(6).view(2, 3).T,
    "channels_last": lambda: torch.ones(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    "expanded beyond any memory": lambda: torch.ones(1).expand(10**12),
    "complex": lambda: [
        torch.tensor([1 + 2j]).conj(),
        torch.tensor([1 + 2j]).conj().imag,
        torch.ones(2, dtype=torch.complex128),
    ],
    "bfloat16": lambda: torch.ones(3, dtype=torch.bfloat16),
    "float8": lambda: torch.ones(3).to(torch.float8_e5m2),
    "uint16": lambda: torch.ones(3, dtype=torch.uint16),
    "complex32": lambda: torch.ones(3).to(torch.complex32),
    "meta": lambda: torch.empty(2, 3, device="meta"),
    "per tensor": lambda: torch.quantize_per_tensor(torch.ones(3), 0.5, 1, torch.quint8),
    "per channel": lambda: quantized(0.5),
    "sparse": lambda: sparse([1, 2]),
    "sparse_csr": lambda: matrix(torch.sparse_csr),
    "sparse_bsc": lambda: matrix(torch.sparse_bsc),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": lambda: jagged(3),
    "storages": lambda: [torch.ones(3).untyped_storage(), torch.DoubleStorage([1.5])],
    "tied": lambda: tied(True),
}

DIFFERENCES: list[tuple[str, Callable[[], tuple[Any, Any]]]] = [
    ("type", lambda: ([1], (1,))),
    ("type", lambda: (1, True)),
    ("type", lambda: ({"a": 1}, OrderedDict(a=1))),
    ("a: value", lambda: ({"a": 1}, {"a": 2})),
    ("keys", lambda: ({"a": 1}, {"b": 1})),
    ("keys", lambda: ({"a": 1, "b": 2}, {"b": 2, "a": 1})),
    (r"\(keys\).0: type", lambda: ({1: 1}, {True: 1})),
    ("length", lambda: ([1], [1, 2])),
    ("0: bits of the number", lambda: ([0.0], [-0.0])),
    ("bits of the number", lambda: (NAN, OTHER_NAN)),
    ("bits of the number", lambda: (1j, 2j)),
    ("type", lambda: (defaultdict(list), defaultdict(None))),
    ("1: value", lambda: (deque([1], 2), deque([1], 3))),
    ("value", lambda: (Holder(1), Holder(2))),
    ("set", lambda: ({1}, {2})),
    ("dtype and shape", lambda: (np.zeros(2), np.zeros(3))),
    ("array's values differ", lambda: (np.zeros(2), np.ones(2))),
    ("1: type", lambda: (np.array([1, None], object), np.array([1, "a"], object))),
    ("type", lambda: (torch.ones(2), torch.nn.Parameter(torch.ones(2)))),
    ("dtype", lambda: (torch.ones(2), torch.ones(2).double())),
    ("shape", lambda: (torch.ones(2), torch.ones(2, 1))),
    ("shape", lambda: (torch.empty(0), torch.empty(0, 1))),
    ("device", lambda: (torch.empty(2), torch.empty(2, device="meta"))),
    ("shape", lambda: (torch.empty(2, device="meta"), torch.empty(3, device="meta"))),
    ("requires_grad", lambda: (torch.ones(2), torch.ones(2, requires_grad=True))),
    ("x: strides", lambda: ({"x": torch.ones(2, 3)}, {"x": torch.ones(3, 2).T})),
    ("strides", lambda: (torch.ones(3), torch.ones(1).expand(3))),
    ("conjugate", lambda: (torch.tensor([1j]), torch.tensor([-1j]).conj())),
    ("1 of its values differ", lambda: (torch.tensor([0.0, 1]), torch.tensor([-0.0, 1]))),
    ("1 of its values differ", lambda: (torch.tensor([NAN], dtype=F8), torch.tensor([OTHER_NAN], dtype=F8))),
    ("1 of its values differ", lambda: (torch.ones(1).expand(10**12), torch.zeros(1).expand(10**12))),
    ("1 of its values differ", lambda: (torch.tensor(1 + 1j, dtype=C16), torch.tensor(1 + 2j, dtype=C16))),
    ("mark: value", lambda: (marked("a"), marked("b"))),
    ("layout", lambda: (sparse([1, 2]), sparse([1, 2]).to_dense())),
    ("x.values: 1 of its values", lambda: ({"x": sparse([1, 2])}, {"x": sparse([1, 3])})),
    ("is_coalesced", lambda: (sparse([1, 2]), sparse([1, 2], coalesced=True))),
    ("values: 1 of its values", lambda: (matrix(torch.sparse_csc), matrix(torch.sparse_csc, 2))),
    ("layout", lambda: (matrix(torch.sparse_csr), matrix(torch.sparse_csc))),
    ("values differ", lambda: (quantized(0.5), quantized(0.25))),
    (r"\(quantizer\).3: value", lambda: (quantized(0.5), quantized(0.5, 1))),
    ("_values: 1 of its values", lambda: (jagged(3), jagged(4))),
    ("storage", lambda: (torch.ones(3).untyped_storage(), torch.ones(4).untyped_storage())),
    ("storage's bytes differ", lambda: (torch.ones(3).untyped_storage(), torch.zeros(3).untyped_storage())),
    ("not in the other", lambda: (tied(True), tied(False))),
    ("two in the other", lambda: (tied(False), tied(True))),
]


def warning_about(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.filterwarnings(f"ignore:{reason}")


pytestmark = [
    warning_about("TypedStorage is deprecated"),
    warning_about("The PyTorch API of nested tensors is in prototype stage"),
    warning_about("Sparse .* tensor support is in beta state"),
    warning_about("ComplexHalf support is experimental"),
    warning_about(r"torch\.\w*quantize"),
]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_copy_is_the_same(name: str) -> None:
    original = SAMPLES[name]()
    assert_same(original, through_torch(original) if name != "storages" else copy.deepcopy(original))
    assert_same(original, original)


@pytest.mark.parametrize(("place", "pair"), DIFFERENCES)
def test_what_differs_is_named(place: str, pair: Callable[[], tuple[Any, Any]]) -> None:
    a, b = pair()
    with pytest.raises(AssertionError, match=place):
        assert_same(a, b)


def test_a_modules_weights_and_settings_are_compared() -> None:
    changed = model()
    changed.get_parameter("0.weight").data[0, 0] = 7
    with pytest.raises(AssertionError, match="weight: 1 of its values"):
        assert_same(model(), changed)
    with pytest.raises(AssertionError, match="training"):
        assert_same(model(), model().eval())


def test_strides_and_identity_may_be_left_out() -> None:
    assert_same(torch.arange(6).view(2, 3).T, torch.arange(6).view(2, 3).T.contiguous(), strides=False)
    assert_same(tied(True), tied(False), identity=False)
    with pytest.raises(AssertionError, match="values differ"):
        assert_same(torch.arange(6).view(2, 3).T, torch.arange(6).view(3, 2), strides=False)


def test_names_are_key_paths() -> None:
    tree = {"model": OrderedDict(w=torch.ones(1)), "steps": [1, (torch.ones(2), Holder(torch.ones(3)))]}
    assert {name: tensor.numel() for name, tensor in named_tensors(tree).items()} == {
        "model.w": 1,
        "steps.1.0": 2,
        "steps.1.1.value": 3,
    }
    with pytest.raises(AssertionError, match=r"two tensors of this tree are both called 'a.b'"):
        named_tensors({"a.b": torch.ones(1), "a": {"b": torch.ones(1)}})


def test_sharing_is_decided_by_bytes() -> None:
    base = torch.zeros(4, 6)
    tree = {
        "left": base[:, :3],
        "right": base[:, 3:],
        "middle": base[:, 2:4],
        "bytes": base.view(torch.uint8)[0, 23:],
        "alias": torch.from_numpy(base.numpy())[0],
        "even": base.view(-1)[::2],
        "odd": base.view(-1)[1::2],
        "none": base[:0],
        "other": torch.zeros(4, 6),
    }
    assert sharing(tree) == {
        ("left", "middle"),
        ("left", "alias"),
        ("left", "even"),
        ("left", "odd"),
        ("right", "middle"),
        ("right", "bytes"),
        ("right", "alias"),
        ("right", "even"),
        ("right", "odd"),
        ("middle", "alias"),
        ("middle", "even"),
        ("middle", "odd"),
        ("bytes", "alias"),
        ("bytes", "odd"),
        ("alias", "even"),
        ("alias", "odd"),
    }
    assert sharing(through_torch({name: tensor for name, tensor in tree.items() if name != "bytes"})) == {
        pair for pair in sharing(tree) if "bytes" not in pair and "alias" not in pair
    }


def test_sharing_sees_the_parts_of_sparse_tensors_and_tied_weights() -> None:
    values = torch.ones(2)
    made = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), values, (4,), check_invariants=True)
    tree = {"sparse": made, "values": values, **tied(True)}
    assert sharing(tree) == {("sparse.values", "values"), ("encoder", "decoder")}


def test_shared_alike_means_the_same_elements() -> None:
    base, other = torch.zeros(6), torch.zeros(6)
    assert_shares_alike([base[:4], base[2:]], [other[:4], other[2:]])
    assert_shares_alike([base[::2], base[2]], [other[:3], other[1]])  # closed up together
    assert_shares_alike([base[:3], base[3:]], [torch.zeros(3), torch.zeros(3)])
    with pytest.raises(AssertionError, match="not shared alike"):
        assert_shares_alike([base[:4], base[2:]], [other[:4], other[1:5]])
    with pytest.raises(AssertionError, match="not shared alike"):
        assert_shares_alike([base[:4], base[2:]], [other[:4], base[2:]])
    with pytest.raises(AssertionError, match="tensors are called"):
        assert_shares_alike([base], {"a": base})


def test_shared_alike_sees_what_a_tensor_shares_with_itself() -> None:
    base = torch.zeros(6)
    assert_shares_alike(base.unfold(0, 3, 1), base.clone().unfold(0, 3, 1))
    assert_shares_alike(torch.zeros(1).expand(10**12), torch.ones(1).expand(10**12))
    with pytest.raises(AssertionError, match="not shared alike"):
        assert_shares_alike(base.unfold(0, 3, 1), base.unfold(0, 3, 1).contiguous())
    with pytest.raises(AssertionError, match="not shared alike"):
        assert_shares_alike(torch.zeros(1).expand(3), torch.zeros(3))


def test_shared_alike_counts_bytes_where_dtypes_differ() -> None:
    base, other = torch.zeros(4), torch.zeros(4)
    assert_shares_alike([base, base.view(torch.int16)[1:3]], [other, other.view(torch.int16)[1:3]])
    with pytest.raises(AssertionError, match="not shared alike"):
        assert_shares_alike([base, base.view(torch.int16)[1:3]], [other, other.view(torch.int16)[2:4]])
