"""A catalogue of things people save: every kind of tensor, every way to share memory, every container around them.

case = CATALOGUE["columns"]
cw.save(case.make(), "x.pt")

`make` gives the same values at every call, in fresh memory. Its tensors are small: the kind is tried, not the size.
"""

import collections
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from tests.tensors.support import shared_objects as shared_objects  # enters more of them
from tests.tensors.support.catalogue import CATALOGUE, QUIET, Case, as_loaded, case, floats

__all__ = [
    "CATALOGUE",
    "QUIET",
    "Case",
    "Holder",
    "Net",
    "Pair",
    "Scaled",
    "Slotted",
    "Tagged",
    "as_loaded",
    "floats",
    "quantized_tensor",
    "seeded_net",
    "sparse_matrix",
    "trained",
]

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
