"""Facts on a tensor are told from the pickle alone, and are what torch says of the loaded tensor."""

import io
from typing import Any

import pytest
import torch

from cordwood.tensors.formats.detect import PickledFile, open_file
from cordwood.tensors.formats.safetensors_reader import SafetensorsFile
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import open_source
from cordwood.tensors.loading.select import description_of
from cordwood.tensors.unpickle.describe import Call, Global, Persistent
from cordwood.tensors.unpickle.machine import spanned_tuple
from cordwood.tensors.unpickle.tensor_info import TensorInfo, storage_facts, tensor_info, views_of
from cordwood.tensors.unpickle.tensor_names import Named, named_tensors

BASE = torch.arange(240.0).reshape(2, 3, 8, 5)


class Tagged(torch.Tensor):
    """A subclass with nothing of its own."""


def tagged() -> torch.Tensor:
    tensor = torch.ones(3, 4).as_subclass(Tagged)
    tensor.note = torch.zeros(1000)  # type: ignore[attr-defined]
    return tensor


def parameter_with_state() -> torch.nn.Parameter:
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    parameter.tag = "mine"  # type: ignore[attr-defined]
    return parameter


STRIDED = {
    "whole": BASE,
    "slice": BASE[1],
    "transposed": BASE.transpose(1, 3),
    "expanded": BASE[:1].expand(7, 3, 8, 5),
    "channels_last": torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "channels_last_3d": torch.ones(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d),
    "scalar": torch.tensor(3),
    "empty": BASE[:0],
    "one column": BASE.reshape(-1, 1)[::2],
    "bool": torch.ones(5, dtype=torch.bool),
    "complex": torch.ones(5, dtype=torch.complex64).conj(),
    "float8": torch.ones(6).to(torch.float8_e5m2),
    "uint16": torch.ones(6, dtype=torch.uint16),
    "grad": torch.ones(2, requires_grad=True),
    "parameter": torch.nn.Parameter(torch.ones(2, 3).t()),
    "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
    "with state": parameter_with_state(),
    "meta": torch.empty(4, 5, device="meta"),
}


def opened(obj: Any, **options: Any) -> PickledFile:
    buffer = io.BytesIO()
    torch.save(obj, buffer, **options)
    file = open_file(open_source(bytearray(buffer.getvalue())), Allotment(None))
    assert not isinstance(file, SafetensorsFile)
    return file


def named(obj: Any, **options: Any) -> dict[str, Named]:
    file = opened(obj, **options)
    return {each.name: each for each in named_tensors(description_of(file).root, "here", len(file.pickle))}


def info_of(tensor: torch.Tensor, **options: Any) -> TensorInfo:
    return tensor_info(named({"x": tensor}, **options)["x"])


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("name", STRIDED)
def test_what_is_told_is_what_torch_says(name: str, legacy: bool) -> None:
    tensor = STRIDED[name]
    info = info_of(tensor, _use_new_zipfile_serialization=not legacy)
    assert info.shape == tuple(tensor.shape)
    assert info.stride == tensor.stride()
    assert info.offset == tensor.storage_offset()
    assert info.dtype == tensor.dtype
    assert info.requires_grad == tensor.requires_grad
    assert info.location == tensor.device.type
    assert info.layout == "strided"
    assert info.contiguous == tensor.is_contiguous()
    assert info.kind == ("torch.nn.parameter.Parameter" if isinstance(tensor, torch.nn.Parameter) else "torch.Tensor")
    assert info.nbytes == (0 if name == "meta" else tensor.numel() * tensor.element_size())
    assert len(info.storages) == (0 if name == "meta" else 1)


@pytest.mark.parametrize("name", ["channels_last", "channels_last_3d"])
def test_the_memory_format_is_told(name: str) -> None:
    assert info_of(STRIDED[name]).memory_format == name
    assert info_of(STRIDED["transposed"]).memory_format == ""
    assert info_of(STRIDED["whole"]).memory_format == "contiguous"


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_sparse_tensor_is_the_sum_of_its_parts(layout: torch.layout) -> None:
    dense = torch.zeros(6, 4, dtype=torch.float64)
    dense[1:3] = 1
    blocks = (2, 2) if layout == torch.sparse_bsr else None
    tensor = dense.to_sparse(layout=layout, blocksize=blocks)  # type: ignore[no-untyped-call, unused-ignore]
    info = info_of(tensor)
    assert (info.shape, info.dtype, info.stride) == ((6, 4), torch.float64, None)
    assert info.layout == str(layout).removeprefix("torch.")
    parts = {
        torch.sparse_coo: lambda: [tensor._values(), tensor._indices()],
        torch.sparse_csr: lambda: [tensor.values(), tensor.crow_indices(), tensor.col_indices()],
        torch.sparse_csc: lambda: [tensor.values(), tensor.ccol_indices(), tensor.row_indices()],
        torch.sparse_bsr: lambda: [tensor.values(), tensor.crow_indices(), tensor.col_indices()],
    }[layout]()
    assert info.nbytes == sum(part.numel() * part.element_size() for part in parts)
    assert len(info.storages) == len(parts)
    assert info.contiguous


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_sizes_that_only_the_data_tell_are_left_open(layout: torch.layout) -> None:
    tensor = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
    info = info_of(tensor)
    assert info.dtype == torch.float32
    assert info.shape == ((2, None, 3) if layout == torch.jagged else (2, None, None))
    assert info.layout == ("jagged" if layout == torch.jagged else "nested")
    assert info.nbytes == 18 * 4


@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning")
def test_per_channel_scales_are_parts_of_a_tensor() -> None:
    scales, zeros = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.int64)
    info = info_of(torch.quantize_per_channel(torch.ones(3, 4), scales, zeros, 0, torch.qint8))
    assert (info.shape, info.dtype, info.nbytes) == ((3, 4), torch.qint8, 12)
    assert len(info.storages) == 3


def test_a_subclass_is_named_and_its_attributes_are_not_parts_of_it() -> None:
    found = named({"x": tagged()})
    info = tensor_info(found["x"])
    assert info.kind == f"{__name__}.Tagged"
    assert (info.shape, info.nbytes, len(info.storages)) == ((3, 4), 48, 1)
    assert [view.shape for _, view in views_of(found["x"].node)] == [(3, 4)]
    assert tensor_info(found["x.note"]).shape == (1000,)


def test_views_are_counted_in_bytes() -> None:
    ((key, view),) = views_of(named({"x": BASE[1, :, 2]})["x"].node)
    assert key == "0"
    assert (view.offset, view.itemsize, view.shape, view.strides) == (4 * (120 + 10), 4, (3, 5), (160, 4))


def rebuild(*arguments: Any) -> Named:
    made = spanned_tuple(arguments, range(len(arguments)), len(arguments))
    return Named("x", Call(Global("torch._utils", "_rebuild_tensor_v2"), made))


def storage(*identity: Any) -> Persistent:
    return Persistent(identity, 0, 0)


FLOATS = storage("storage", Global("torch", "FloatStorage"), "0", "cpu", 10)
HUGE = 10**5000


@pytest.mark.parametrize(
    "arguments",
    [
        (FLOATS, 0, (HUGE,), (1,)),
        (FLOATS, HUGE, (2,), (1,)),
        (FLOATS, 0, (2,), (-1,)),
        (FLOATS, 0, (2, 2), (1,)),
        (FLOATS, 0, (2,) * 65, (1,) * 65),
        (FLOATS, 0, ("two",), (1,)),
        (FLOATS, 0, None, None),
        (FLOATS, True, (2,), (1,)),
        (FLOATS,),
        (),
    ],
)
def test_numbers_that_cannot_be_are_left_out(arguments: tuple[Any, ...]) -> None:
    info = tensor_info(rebuild(*arguments))
    assert (info.shape, info.stride, info.nbytes) == (None, None, 0)
    assert info.contiguous
    assert list(views_of(rebuild(*arguments).node)) == []


@pytest.mark.parametrize(
    "identity",
    [
        (),
        ("storage",),
        ("module", Global("torch", "FloatStorage"), "0", "cpu", 10),
        ("storage", Global("torch", "NoStorage"), "0", "cpu", 10),
        ("storage", "torch.FloatStorage", "0", "cpu", 10),
        ("storage", Global("torch", "FloatStorage"), ["0"], "cpu", 10),
        ("storage", Global("torch", "FloatStorage"), HUGE, "cpu", 10),
        ("storage", Global("torch", "FloatStorage"), "0", None, 10),
        ("storage", Global("torch", "FloatStorage"), "0", "cpu", HUGE),
        ("storage", Global("torch", "FloatStorage"), "0", "cpu", -1),
        ("storage", Global("torch", "FloatStorage"), "0", "cpu", 10, None, None),
    ],
)
def test_what_is_no_storage_is_none(identity: tuple[Any, ...]) -> None:
    assert storage_facts(storage(*identity)) is None
    assert tensor_info(rebuild(storage(*identity), 0, (2,), (1,))).dtype is None


def test_the_words_of_python_2_are_text() -> None:
    facts = storage_facts(storage(b"storage", Global("torch", "HalfStorage"), b"7", b"cuda:1", 5, (1, 2, 3)))
    assert facts is not None
    assert (facts.key, facts.location, facts.nbytes, facts.dtype) == ("7", "cuda:1", 10, torch.float16)
    assert facts.part


def test_a_tensor_that_is_nested_in_itself_is_no_trap() -> None:
    node = Call(Global("torch._utils", "_rebuild_parameter"), ())
    node.arguments = (node, True, None)
    assert tensor_info(Named("x", node)).shape is None
