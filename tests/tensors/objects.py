"""A catalogue of things people save: every kind of tensor, every way to share memory, every container around them.

case = CATALOGUE["columns"]
cw.save(case.make(), "x.pt")

`make` gives the same values at every call, in fresh memory. Its tensors are small: the kind is tried, not the size.
"""

import collections
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

# What torch says of some kinds of tensors, once a process, at no fault of those who save them.
QUIET = pytest.mark.filterwarnings(
    "ignore:TypedStorage is deprecated",
    "ignore:.*quantize.*deprecated",
    "ignore:ComplexHalf support is experimental",
    "ignore:Sparse invariant checks",
    "ignore:Sparse .* tensor support is in beta",
    "ignore:The PyTorch API of nested tensors",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One object, and what torch makes of it."""

    name: str
    make: Callable[[], Any]
    safe: bool = True  # torch.load(weights_only=True) takes it
    torch_saves: bool = True  # torch.save takes it


CATALOGUE: dict[str, Case] = {}


def case(*, safe: bool = True, torch_saves: bool = True) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Enter a function into the catalogue under its own name."""

    def enter(make: Callable[[], Any]) -> Callable[[], Any]:
        assert make.__name__ not in CATALOGUE
        CATALOGUE[make.__name__] = Case(make.__name__, make, safe, torch_saves)
        return make

    return enter


def floats(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values that no two elements share, and that no codec makes small."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def as_loaded(obj: Any) -> Any:
    """What loading gives for it: the same, but a bare storage comes back as a storage of bytes, in torch as here."""
    if type(obj) is dict and any(isinstance(value, torch.UntypedStorage) for value in obj.values()):
        return {key: as_loaded(value) for key, value in obj.items()}
    if isinstance(obj, torch.UntypedStorage):
        return torch.TypedStorage(wrap_storage=obj, dtype=torch.uint8, _internal=True)
    return obj


# containers


class Pair(NamedTuple):
    """A tuple with a class of its own."""

    first: Any
    second: Any


class Holder:
    """An ordinary object with tensors inside."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@case()
def lone_tensor() -> Any:
    return floats(3, 4)


@case()
def containers() -> Any:
    inner = [floats(2), (floats(3), [floats(1), None]), {"a": {"b": floats(2, 2)}, 3: floats(4), ("t", 1): True}]
    counted = collections.Counter({"x": 3, "y": 1})
    return {"list": inner, "tuple": (), "ordered": collections.OrderedDict(z=floats(2), a=1), "counter": counted}


@case()
def plain_values() -> Any:
    numbers = [0, 1, -1, 255, 256, 65536, -(2**31), 2**31, 2**63, -(2**63), 2**200, 1.5, -0.0, 1e300, 1 + 2j]
    texts = ["", "é", "日本", "a" * 300, b"\x00\xff", bytearray(b"abc")]
    sets = [set(), {1, 2, 3}]
    torch_values = [torch.Size((2, 3)), torch.device("cpu"), torch.float32, torch.bfloat16, torch.uint16]
    return {"numbers": numbers, "texts": texts, "sets": sets, "torch": torch_values, "bools": (True, False, None)}


@case(safe=False)
def no_bytes() -> Any:
    return b""  # which pickle writes in another way than other bytes


@case()
def no_tensor() -> Any:
    return {"epoch": 3}


@case()
def empty_dict() -> Any:
    return {}


@case()
def one_object_twice() -> Any:
    tensor, part = floats(4), {"x": floats(2)}
    return {"a": tensor, "b": [tensor, tensor], "c": part, "d": part}


@case()
def list_in_itself() -> Any:
    loop: list[Any] = [floats(2)]
    loop.append(loop)
    return loop


@case(safe=False)
def objects() -> Any:
    made = Holder(tensor=floats(3), pair=Pair(floats(2), "x"))
    return {"holder": made, "again": made, "default": collections.defaultdict(list, a=[floats(2)]), "range": range(3)}


@case(safe=False)
def numpy_inside() -> Any:
    return {"array": np.arange(12.0).reshape(3, 4), "scalar": np.float32(2.5), "tensor": floats(2)}


# modules and optimizers


class Net(nn.Module):
    """Convolution, normalisation, a buffer, and two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.embed = nn.Embedding(7, 5)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("table", torch.arange(6).reshape(2, 3))
        self.blocks = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))  # type: ignore[no-any-return]


def seeded_net() -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Net()


@case()
def parameters() -> Any:
    frozen = nn.Parameter(floats(2), requires_grad=False)
    with_state = nn.Parameter(floats(3))
    with_state.note = "kept"  # type: ignore[attr-defined]
    return {"trained": nn.Parameter(floats(2, 3)), "frozen": frozen, "with_state": with_state}


@case()
def state_dict() -> Any:
    return seeded_net().state_dict()


@case(safe=False)
def whole_module() -> Any:
    return seeded_net()


@case(safe=False)
def whole_module_evaluating() -> Any:
    net = seeded_net().eval()
    net.conv.weight.requires_grad_(False)
    return nn.Sequential(net, nn.ReLU(), nn.Dropout(0.1))


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    net = seeded_net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    net(floats(2, 3, 8, 8)).sum().backward()
    optimizer.step()
    return net, optimizer


@case()
def checkpoint() -> Any:
    net, optimizer = trained()
    rng = torch.Generator().manual_seed(3).get_state()
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7, "best": 0.25, "rng": rng}


@case(safe=False)
def whole_optimizer() -> Any:
    net, optimizer = trained()
    return {"net": net, "optimizer": optimizer}


@case()
def parameter_and_its_data() -> Any:
    weight = nn.Parameter(floats(3, 2))
    return {"parameter": weight, "data": weight.data, "row": weight.detach()[1]}


# kinds of tensors


class Tagged(torch.Tensor):
    """A subclass with attributes of its own."""

    tag: str


class Slotted(torch.Tensor):
    """A subclass that keeps attributes in slots."""

    __slots__ = ("unit",)
    unit: str


class Scaled(torch.Tensor):
    """A subclass without memory of its own: it holds another tensor, and a number."""

    held: torch.Tensor
    scale: float

    @staticmethod
    def __new__(cls, inner: torch.Tensor, scale: float) -> "Scaled":
        made: Any = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.held, made.scale = inner, scale
        return made  # type: ignore[no-any-return]

    def __tensor_flatten__(self) -> tuple[list[str], float]:
        return ["held"], self.scale

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(f"{func} of a Scaled")


@case(safe=False)
def subclass() -> Any:
    tagged = floats(6).as_subclass(Tagged)
    tagged.tag = "kept"
    return {"whole": tagged, "part": tagged[2:4], "plain": tagged.as_subclass(torch.Tensor)[1:3]}


@case(safe=False)
def subclass_with_slots() -> Any:
    slotted = floats(4).as_subclass(Slotted)
    slotted.unit = "m"
    return slotted


@case(safe=False)
def wrapper_subclass() -> Any:
    inner = floats(10)[2:6]
    return {"wrapper": Scaled(inner, 0.5), "inner": inner}


@case()
def attributes_on_tensors() -> Any:
    base = floats(10)
    view = base[3:7]
    view.note = {"of": "mine"}  # type: ignore[attr-defined]
    view.other = base[5:9]  # type: ignore[attr-defined]
    return {"view": view}


@case()
def requires_grad() -> Any:
    leaf = floats(3).requires_grad_()
    return {"leaf": leaf, "not": leaf.detach(), "result": (leaf * 2), "double": floats(2).double().requires_grad_()}


@case()
def conjugate_and_negative() -> Any:
    z = floats(6, dtype=torch.complex64)
    return {"conj": z.conj(), "slice": z.conj()[1:3], "neg": floats(4, dtype=torch.complex128).conj().imag}


@case()
def complex_kinds() -> Any:
    values = floats(2, 3, dtype=torch.complex128)
    return {"complex128": values, "complex64": values.to(torch.complex64), "complex32": values.to(torch.complex32)}


@case()
def every_dtype() -> Any:
    found = {}
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    ):
        dtype = getattr(torch, name)
        raw = torch.arange(16 * dtype.itemsize, dtype=torch.uint8) * 5
        found[name] = (raw & 1).to(torch.bool) if name == "bool" else raw.view(dtype)
    return found


@case()
def special_floats() -> Any:
    bits = torch.tensor([0x7FC00001, -1, 0x7F800000, -(2**31), 1, 0x007FFFFF, 0x7FA00000], dtype=torch.int32)
    return {
        "float32": bits.view(torch.float32),
        "bool_bytes": torch.tensor([0, 1, 2, 255] * 100).byte().view(torch.bool),
    }


def quantized_tensor() -> torch.Tensor:
    return torch.quantize_per_tensor(floats(4, 6), 0.1, 3, torch.quint8)


@case()
def quantized() -> Any:
    per_tensor = quantized_tensor()
    scales, zeros = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2])
    per_channel = torch.quantize_per_channel(floats(3, 4), scales, zeros, 0, torch.qint8)
    wide = torch.quantize_per_tensor(floats(5), 0.01, 0, torch.qint32)
    return {"per_tensor": per_tensor, "slice": per_tensor[1:3], "per_channel": per_channel, "wide": wide}


@case()
def quantized_by_channel_of_another_axis() -> Any:
    scales, zeros = torch.rand(4, generator=torch.Generator().manual_seed(0)).double(), torch.zeros(4).long()
    return torch.quantize_per_channel(floats(3, 4), scales, zeros, 1, torch.quint8)


def sparse_matrix() -> torch.Tensor:
    dense = torch.zeros(4, 6)
    dense[0, 1], dense[2, 3], dense[2, 5], dense[3, 0] = 1.5, -2.0, 3.0, 4.0
    return dense


@case()
def sparse_coo() -> Any:
    coalesced = sparse_matrix().to_sparse_coo()
    double = torch.sparse_coo_tensor(torch.tensor([[0, 0, 1], [1, 1, 0]]), floats(3), (2, 3))
    hybrid = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), floats(2, 3), (4, 3))
    return {"coalesced": coalesced, "not": double, "hybrid": hybrid, "empty": torch.zeros(3, 2).to_sparse_coo()}


@case()
def sparse_compressed() -> Any:
    dense = sparse_matrix()
    rows, columns = dense.to_sparse_csr(), dense.to_sparse_csc()
    return {"csr": rows, "csc": columns, "bsr": dense.to_sparse_bsr((2, 3)), "bsc": dense.to_sparse_bsc((2, 3))}


@case()
def sparse_over_parts_of_memory() -> Any:
    values, indices = floats(100), torch.arange(40).reshape(2, 20)
    part = torch.sparse_coo_tensor(indices[:, 3:6], values[50:53], (30, 30), is_coalesced=True)
    return {"sparse": part, "values": values[51:55]}


@case()
def nested() -> Any:
    return torch.nested.nested_tensor([floats(2, 3), floats(1, 3), floats(4, 3)])


@case()
def jagged() -> Any:
    return torch.nested.nested_tensor([floats(2, 3), floats(4, 3)], layout=torch.jagged)


@case()
def meta() -> Any:
    whole = torch.empty(5, 6, device="meta")
    return {"whole": whole, "part": whole[1:3], "large": torch.empty(1 << 20, 1 << 20, device="meta")}


@case()
def zero_size() -> Any:
    return {
        "flat": torch.empty(0),
        "rows": torch.empty(0, 3),
        "columns": torch.empty(3, 0, 2),
        "int": torch.empty(0).int(),
    }


@case()
def empty_views_of_much() -> Any:
    large = floats(5000)
    return {"empty": large[10:10], "rows": large.view(50, 100)[:, 7:7], "selected": large.view(50, 100)[50:]}


@case()
def scalars() -> Any:
    return {
        "zero_d": torch.tensor(3.5),
        "of_many": floats(1000)[500],
        "int": torch.tensor(7),
        "bool": torch.tensor(True),
    }


# what shares memory with what


@case()
def slice_of_a_batch() -> Any:
    return floats(64, 3, 5, 5)[17]


@case()
def tied_weights() -> Any:
    weight = floats(4, 5)
    return {"embed": weight, "head": weight, "transposed": weight.t(), "detached": weight.detach(), "row": weight[2]}


@case()
def disjoint_with_gaps() -> Any:
    base = floats(1000)
    return [base[3:7], base[100:120], base[500:501], base[990:]]


@case()
def adjoining() -> Any:
    return list(floats(12, 5).unbind())


@case()
def overlapping() -> Any:
    base = floats(200)
    return {"a": base[10:50], "b": base[30:70], "c": base[69:80], "apart": base[150:160]}


@case()
def columns() -> Any:
    base = floats(20, 30)
    return {"left": base[:, :5], "beside": base[:, 5:9], "over": base[:, 7:12], "rows": base[15:, 28:]}


@case()
def every_second() -> Any:
    base = floats(20, 30)
    return {"rows": base[::2], "columns": base[:, 1::3], "both": floats(9, 9)[::2, ::2]}


@case()
def channels_last() -> Any:
    images = floats(4, 3, 5, 6).to(memory_format=torch.channels_last)
    return {"whole": images, "one": images[1:2], "cropped": images[:, :, 1:4, 2:5]}


@case()
def transposed() -> Any:
    base = floats(6, 8)
    return {"t": base.t(), "part": floats(6, 8).t()[2:5], "permuted": floats(2, 3, 4).permute(2, 0, 1)}


@case()
def expanded() -> Any:
    return {
        "much": floats(1).expand(1000, 1000),
        "rows": floats(4, 1).expand(4, 50),
        "part": floats(9, 1)[3:5].expand(2, 6),
    }


@case()
def unfolded() -> Any:
    base = floats(40)
    return {"windows": base.unfold(0, 5, 2), "strided": floats(60)[::2].unfold(0, 3, 1), "alone": base[38:]}


@case()
def diagonals() -> Any:
    base = floats(8, 8)
    return {"diagonal": base.diagonal(), "row": base[3], "other": floats(8, 8).diagonal(1)}


@case()
def from_numpy_twice() -> Any:
    array = np.arange(60, dtype=np.float32)
    return {"a": torch.from_numpy(array), "b": torch.from_numpy(array), "part": torch.from_numpy(array[20:40])}


@case()
def from_numpy_overlapping() -> Any:
    array = np.arange(60, dtype=np.int64)
    return [torch.from_numpy(array[5:20]), torch.from_numpy(array[10:30]), torch.from_numpy(array[40:45])]


@case(torch_saves=False)
def two_dtypes() -> Any:
    base = floats(16)
    return {"floats": base, "ints": base.view(torch.int32), "bytes": base.view(torch.uint8)[8:12]}


@case(torch_saves=False)
def real_and_imaginary() -> Any:
    z = floats(10, dtype=torch.complex64)
    return {"z": z, "real": z.real, "imag": z.imag, "pairs": torch.view_as_real(z)[2:4], "neg": z.conj().imag}


@case(torch_saves=False)
def two_dtypes_with_gaps() -> Any:
    base = floats(100)
    return {"floats": base[10:14], "halves": base[12:20].view(torch.float16), "longs": base[50:54].view(torch.int64)}


@case(torch_saves=False)
def two_dtypes_through_numpy() -> Any:
    array = np.arange(32, dtype=np.float64)
    return [
        torch.from_numpy(array[4:8]),
        torch.from_numpy(array.view(np.int32)),
        torch.from_numpy(array.view(np.uint16))[9:],
    ]


@case(torch_saves=False)
def two_dtypes_of_a_parameter() -> Any:
    weight = nn.Parameter(floats(8))
    return {"weight": weight, "bits": weight.detach().view(torch.int32)}


@case()
def two_new_dtypes() -> Any:
    base = torch.arange(64, dtype=torch.uint8)
    return {"e4m3": base[8:16].view(torch.float8_e4m3fn), "e5m2": base.view(torch.float8_e5m2)[12:20]}


# storages by themselves


@case()
def typed_storage() -> Any:
    return {"storage": _typed(floats(10)), "tensor": floats(2)}


@case()
def untyped_storage() -> Any:
    return floats(10)[2:4].untyped_storage()


@case()
def storage_and_views() -> Any:
    base = floats(30)
    return {"storage": _typed(base), "a": base[4:6], "b": base[5:9]}


@case(torch_saves=False)
def untyped_storage_and_views() -> Any:
    base = floats(30)
    return {"storage": base.untyped_storage(), "a": base[4:6], "b": base[5:9]}


def _typed(tensor: torch.Tensor) -> torch.TypedStorage:
    return torch.TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)
