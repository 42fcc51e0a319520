"""Tensors out of numbers that a file says: right ones are what torch makes of them, wrong ones are refused."""

import io
import struct
from typing import Any

import pytest
import torch

import cordwood
from tests.tensors.support.craft import (
    EMPTY_HOOKS,
    archive,
    call,
    glob,
    meta,
    one,
    persistent,
    pickled,
    storage,
    tensor,
    tup,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse"),
    pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]
LONG, FLOAT, DOUBLE, QUANTIZED = (f"torch.{kind}Storage" for kind in ("Long", "Float", "Double", "QUInt8"))
UTILS = "torch._utils."
PER_TENSOR, PER_CHANNEL = glob("torch.per_tensor_affine"), glob("torch.per_channel_affine")


def load(opcodes: bytes, storages: dict[str, bytes] | None = None) -> Any:
    return cordwood.load(io.BytesIO(archive(pickled(opcodes), storages or {"0": bytes(16)})))


def longs(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def sparse(layout: str, size: Any, *parts: tuple[str, int, tuple[int, ...], tuple[int, ...]]) -> bytes:
    """Parts are (kind, numel, size, stride), over storages 0, 1, 2."""
    made = [
        tensor(str(key), numel, kind=kind, size=shape, stride=stride)
        for key, (kind, numel, shape, stride) in enumerate(parts)
    ]
    return call(UTILS + "_rebuild_sparse_tensor", call("torch.serialization._get_layout", layout), tup(*made, size))


PAIR = (LONG, 2, (1, 2), (2, 1)), (FLOAT, 2, (2,), (1,))


def test_a_sparse_tensor() -> None:
    loaded = load(sparse("torch.sparse_coo", (5,), *PAIR), {"0": longs(1, 4), "1": floats(3, 7)})
    assert loaded.to_dense().tolist() == [0, 3, 0, 0, 7]


def test_a_sparse_tensor_may_be_far_larger_than_memory() -> None:
    parts = (LONG, 2, (2, 1), (1, 1)), (FLOAT, 1, (1,), (1,))
    loaded = load(sparse("torch.sparse_coo", (1 << 30, 1 << 30), *parts), {"0": longs(7, 9), "1": floats(3)})
    assert loaded.shape == (1 << 30, 1 << 30)


@pytest.mark.parametrize(
    ("size", "indices", "match"),
    [
        ((4,), (1, 4), "found index 4"),
        ((4,), (1, -1), "negative index"),
        ((4, 4), (1, 2), "rebuild_sparse_tensor"),
        ((-4,), (1, 2), "-4 among"),
        ((1 << 40, 1 << 40), (1, 2), "a tensor of size"),
        (None, (1, 2), "for the numbers of a tensor"),
    ],
)
def test_sparse_indices_outside_are_refused(size: Any, indices: tuple[int, ...], match: str) -> None:
    with pytest.raises(cordwood.FormatError, match=match):
        load(sparse("torch.sparse_coo", size, *PAIR), {"0": longs(*indices), "1": floats(3, 7)})


LAYOUTS = ["torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc"]
INDICES = {
    "column too large": ((0, 1, 2), (0, 9)),
    "column negative": ((0, 1, 2), (0, -1)),
    "falling": ((0, 5, 2), (0, 1)),
    "another count": ((0, 1, 9), (0, 1)),
    "not from 0": ((-1, 1, 2), (0, 1)),
}


def compressed(layout: str, size: Any = (2, 2), rows: tuple[int, ...] = (3,), stride: tuple[int, ...] = (1,)) -> bytes:
    values = (FLOAT, 2, (2, 1, 1), (1, 1, 1)) if "_bs" in layout else (FLOAT, 2, (2,), (1,))
    return sparse(layout, size, (LONG, 3, rows, stride), (LONG, 2, (2,), (1,)), values)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_compressed_tensor(layout: str) -> None:
    storages = {"0": longs(0, 1, 2), "1": longs(1, 0), "2": floats(3, 7)}
    expected = [[0, 3], [7, 0]] if layout in ("torch.sparse_csr", "torch.sparse_bsr") else [[0, 7], [3, 0]]
    assert load(compressed(layout), storages).to_dense().tolist() == expected


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", INDICES)
def test_compressed_indices_outside_are_refused(layout: str, kind: str) -> None:
    rows, columns = INDICES[kind]
    with pytest.raises(cordwood.FormatError, match="is not satisfied"):
        load(compressed(layout), {"0": longs(*rows), "1": longs(*columns), "2": floats(3, 7)})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_compressed_indices_that_are_expanded_are_not_looked_at_one_by_one(layout: str) -> None:
    size = ((1 << 40) - 1, 2) if "sr" in layout else (2, (1 << 40) - 1)
    with pytest.raises(cordwood.FormatError, match="may be a bomb"):
        load(
            compressed(layout, size, (1 << 40,), (0,)),
            {"0": longs(0, 1, 2), "1": longs(0, 1), "2": floats(3, 7)},
        )


def test_parts_of_a_sparse_tensor_are_plain_and_together() -> None:
    layout = call("torch.serialization._get_layout", "torch.sparse_coo")
    inner = sparse("torch.sparse_coo", (5,), *PAIR)
    storages = {"0": longs(1, 4), "1": floats(3, 7)}
    for parts, match in (
        (tup(inner, inner, (5,)), "made of sparse, nested or quantized"),
        (tup(tensor("0", 2, kind=LONG, size=(1, 2), stride=(2, 1)), meta((2,), (1,)), (5,)), "different devices"),
        (tup(5, 6, (5,)), "made of a int"),
        (tup(5), "_rebuild_sparse_tensor"),
    ):
        with pytest.raises(cordwood.FormatError, match=match):
            load(call(UTILS + "_rebuild_sparse_tensor", layout, parts), storages)


def quantized(params: bytes, size: Any = (4,), stride: Any = (1,), kind: str = QUANTIZED) -> bytes:
    return call(UTILS + "_rebuild_qtensor", storage("0", 16, kind), 0, size, stride, params, False, EMPTY_HOOKS)


def channels(size: Any, stride: Any, scales: Any, zero_points: Any, axis: Any = 0) -> bytes:
    return quantized(tup(PER_CHANNEL, scales, zero_points, axis), size, stride)


SCALES = tensor("1", 2, kind=DOUBLE, size=(2,))
ZEROS = tensor("2", 2, kind=LONG, size=(2,))
STORED = {"0": bytes(range(16)), "1": struct.pack("<2d", 0.5, 2), "2": longs(0, 1)}


def test_a_quantized_tensor() -> None:
    assert load(quantized(tup(PER_TENSOR, 0.5, 1)), STORED).dequantize().tolist() == [-0.5, 0, 0.5, 1]
    loaded = load(channels((2, 2), (2, 1), SCALES, ZEROS), STORED)
    assert loaded.dequantize().tolist() == [[0, 0.5], [2, 4]]
    loaded = load(channels((2, 2), (2, 1), [0.5, 2.0], [0, 1]), STORED)
    assert loaded.dequantize().tolist() == [[0, 0.5], [2, 4]]


def test_a_quantized_tensor_that_is_expanded_takes_no_memory() -> None:
    assert load(quantized(tup(PER_TENSOR, 0.5, 1), (1 << 40,), (0,)), STORED).shape == (1 << 40,)


def wide(key: str, kind: str) -> bytes:
    return tensor(key, 2, kind=kind, size=(1 << 33,), stride=(0,))


QUANTIZED_WRONG = {
    "no parameters": (quantized(b")"), "quantization scheme None"),
    "another scheme": (quantized(tup(glob("torch.per_tensor_symmetric"), 1.0, 0)), "quantization scheme"),
    "scale is no float": (quantized(tup(PER_TENSOR, 1, 0)), "not a float and an integer"),
    "zero point too large": (quantized(tup(PER_TENSOR, 1.0, 1 << 80)), "_rebuild_qtensor"),
    "too few parameters": (quantized(tup(PER_TENSOR, 1.0)), "_rebuild_qtensor"),
    "outside": (quantized(tup(PER_TENSOR, 1.0, 0), (17,)), "needs 17 bytes"),
    "no quantized storage": (quantized(tup(PER_TENSOR, 1.0, 0), kind="torch.ByteStorage"), "quantized"),
    "axis too large": (channels((2, 2), (2, 1), SCALES, ZEROS, 2), "axis 2"),
    "axis negative": (channels((2, 2), (2, 1), SCALES, ZEROS, -1), "axis -1"),
    "too few scales": (channels((3, 2), (2, 1), SCALES, ZEROS), "3 channels"),
    "scales that are text": (channels((2, 2), (2, 1), ["a", "b"], [0, 0]), "made of a list"),
    "scales that are integers": (channels((2, 2), (2, 1), ZEROS, ZEROS), "floating point"),
    "expanded scales": (channels((1 << 33,), (0,), wide("1", DOUBLE), wide("2", LONG)), "may be a bomb"),
    "no axis at all": (channels((), (), SCALES, ZEROS), "axis 0"),
    "below a byte, outside": (quantized(tup(PER_TENSOR, 1.0, 0), (33,), (1,), "torch.QUInt4x2Storage"), "needs 33"),
    "below a byte, far": (quantized(tup(PER_TENSOR, 1.0, 0), (2,), (1 << 40,), "torch.QUInt2x4Storage"), "needs"),
}


@pytest.mark.parametrize("kind", QUANTIZED_WRONG)
def test_a_quantized_tensor_that_cannot_be_is_refused(kind: str) -> None:
    opcodes, match = QUANTIZED_WRONG[kind]
    with pytest.raises(cordwood.FormatError, match=match):
        load(opcodes, STORED)


def nested(
    sizes: tuple[int, int], strides: tuple[int, int], offsets: tuple[int, int], buffer: bytes | None = None
) -> Any:
    column: dict[str, Any] = {"size": (2, 1), "stride": (1, 1), "kind": LONG}
    opcodes = call(
        UTILS + "_rebuild_nested_tensor",
        tensor() if buffer is None else buffer,
        *(tensor("1", 2, **column), tensor("2", 2, **column), tensor("3", 2, kind=LONG, size=(2,))),
    )
    return load(opcodes, {"0": floats(1, 2, 3, 4), "1": longs(*sizes), "2": longs(*strides), "3": longs(*offsets)})


def test_a_nested_tensor() -> None:
    assert [piece.tolist() for piece in nested((1, 3), (1, 1), (0, 1)).unbind()] == [[1], [2, 3, 4]]
    assert [piece.tolist() for piece in nested((0, 2), (1, 2), (9, 1)).unbind()] == [[], [2, 4]]


@pytest.mark.parametrize(
    "numbers",
    [
        ((2, 2), (1, 1), (0, 3)),
        ((2, 2), (1, 4), (0, 0)),
        ((2, 5), (1, 1), (0, 0)),
        ((2, 2), (1, 1), (0, -1)),
        ((2, 2), (1, -1), (0, 3)),
        ((2, -2), (1, 1), (0, 0)),
        ((2, 1 << 62), (1, 1 << 62), (0, 0)),
    ],
)
def test_a_piece_outside_its_buffer_is_refused(numbers: Any) -> None:
    with pytest.raises(cordwood.FormatError, match=r"_rebuild_nested_tensor: (a piece|-|4611)"):
        nested(*numbers)


def test_an_expanded_buffer_has_no_more_than_its_memory() -> None:
    with pytest.raises(cordwood.FormatError, match="not one row of items"):
        nested((2, 2), (1, 1), (0, 100_000), tensor(size=(1 << 30,), stride=(0,)))


def test_sizes_of_a_nested_tensor_are_not_more_than_the_file_has() -> None:
    column = tensor("1", 1, kind=LONG, size=(1 << 33, 1), stride=(0, 1))
    opcodes = call(
        UTILS + "_rebuild_nested_tensor",
        *(tensor(), column, column, tensor("1", 1, kind=LONG, size=(1 << 33,), stride=(0,))),
    )
    with pytest.raises(cordwood.FormatError, match="may be a bomb"):
        load(opcodes, {"0": bytes(16), "1": longs(0)})


def test_a_tensor_over_untyped_bytes() -> None:
    untyped = persistent("storage", glob("torch.storage.UntypedStorage"), "0", "cpu", 16)
    arguments = (untyped, 1, (3,), (1,), False, EMPTY_HOOKS, glob("torch.int32"))
    assert load(call(UTILS + "_rebuild_tensor_v3", *arguments), {"0": bytes(16)}).dtype == torch.int32
    with pytest.raises(cordwood.FormatError, match="needs 20 bytes"):
        load(call(UTILS + "_rebuild_tensor_v3", untyped, 2, *arguments[2:]), {"0": bytes(16)})


def test_the_oldest_form() -> None:
    assert load(call(UTILS + "_rebuild_tensor", storage(), 1, (3,), (1,))).tolist() == [0, 0, 0]


def test_gradient_and_attributes() -> None:
    assert load(tensor(requires_grad=True)).requires_grad
    loaded = load(call(UTILS + "_rebuild_parameter_with_state", tensor(), True, EMPTY_HOOKS, {"note": "mine"}))
    assert isinstance(loaded, torch.nn.Parameter)
    assert vars(loaded)["note"] == "mine"


def test_a_type_is_not_built_of_a_type() -> None:
    inner = glob("torch._tensor._rebuild_from_type_v2")
    with pytest.raises(cordwood.FormatError, match="no tensor"):
        cordwood.load(
            io.BytesIO(one(call("torch._tensor._rebuild_from_type_v2", inner, glob("torch.Tensor"), (), None)))
        )
