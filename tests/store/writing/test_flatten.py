"""Samples taken apart, and the messages for those that do not fit."""

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

from cordwood.errors import UsageError
from cordwood.store.values.namedtuples import fresh_class
from cordwood.store.writing.flatten import flatten, flattener
from cordwood.store.writing.infer import infer
from tests.store.support.samples import Box, Point

SAMPLE: dict[Any, Any] = {
    "image": torch.arange(12, dtype=torch.float32).view(3, 4),
    "label": 3,
    "meta": {"path": "a.jpg", "box": Box(0.5, None, torch.tensor(2))},
    "mask": np.ones((2, 2), bool),
    "count": np.int16(7),
    "ids": [1, 2, 3],
    "raw": b"abc",
    "flag": True,
    "never": None,
    "order": OrderedDict(a=1, b=2),
    "pair": (1, "x"),
    "level": np.array(1.5),
    7: 2j,
}
SCHEMA = infer([SAMPLE])


def changed(**changes: Any) -> dict[Any, Any]:
    return {**SAMPLE, **changes}


def test_the_parts_of_a_sample() -> None:
    flat = flatten(SCHEMA, {"image": SAMPLE["image"], "label": -2, "flag": True, "raw": b"xy", "never": None})
    arrays = {leaf.name: flat.arrays[leaf.frame] for leaf in SCHEMA.frames}
    image, raw = arrays.pop("image"), arrays.pop("raw")
    assert image is not None
    assert raw is not None
    assert image.ctypes.data == SAMPLE["image"].data_ptr()  # no copy where none is needed
    assert bytes(raw) == b"xy"
    assert set(arrays.values()) == {None}
    assert flat.columns[:8] == (-2).to_bytes(8, "little", signed=True)
    assert len(flat.columns) == sum(
        {"int": 8, "float": 8, "bool": 1, "complex": 16}.get(leaf.node.type, 8 if leaf.name != "count" else 2)
        for leaf in SCHEMA.columns
    )


def test_the_compiled_form_is_kept() -> None:
    assert flattener(SCHEMA) is flattener(SCHEMA)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).view(3, 4).t(),
        torch.arange(12.0)[::2],
        torch.ones(3).expand(4, 3),
        torch.ones(3, requires_grad=True),
        torch.nn.Parameter(torch.ones(3)),
        torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last),
        torch._neg_view(torch.ones(3)),
        torch.ones(3, dtype=torch.complex64).mul(1j).conj(),
        torch.ones(3, dtype=torch.complex64).mul(1j).conj().imag,
        torch.ones(3, dtype=torch.bfloat16, requires_grad=True),
        torch._neg_view(torch.ones(3, dtype=torch.bfloat16)),
        torch.ones(4, 3, dtype=torch.bfloat16).t(),
    ],
)
def test_tensors_of_any_memory_are_taken_by_their_values(tensor: torch.Tensor) -> None:
    array = flatten(infer([tensor]), tensor).arrays[0]
    assert array is not None
    assert array.flags.c_contiguous
    expected = tensor.detach().resolve_conj().resolve_neg().contiguous()
    found = torch.from_numpy(array.copy()).view(tensor.dtype)
    assert torch.equal(found, expected)


def test_arrays_of_any_memory_are_taken_by_their_values(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(2, 3))
    mapped[:] = 5
    read_only = np.arange(3.0)
    read_only.flags.writeable = False
    for array in (
        np.arange(6).reshape(2, 3).T,
        np.arange(3, dtype=">i4"),
        mapped,
        mapped[0],
        read_only,
        np.ones(5)[::-2],
    ):
        (found,) = flatten(infer([array]), array).arrays
        assert found is not None
        assert found.flags.c_contiguous
        assert found.dtype.isnative
        assert np.array_equal(found, array)
        assert found.dtype == array.dtype.newbyteorder("=")


HINT = (
    r"; convert it, or if it is meant to vary, make a new store at another path with "
    r"fields=\{'%s': cw.Field\(varies=True\)\}"
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"image": SAMPLE["image"].double()},
            "'image': expected tensor of float32, but a tensor of float64, shape",
        ),
        (
            {"image": SAMPLE["image"].numpy()},
            r"tensor of float32, but an ndarray of float32, shape \(3, 4\) came" + HINT % "image",
        ),
        ({"image": torch.ones(2).to_sparse()}, "'image' cannot be stored: it is a tensor of layout torch.sparse_coo"),
        ({"image": [1.5]}, "tensor of float32, but a list of 1 came"),
        ({"label": 3.0}, r"'label': expected int, but a float \(3.0\) came"),
        ({"label": True}, r"int, but a bool \(True\) came"),
        ({"label": np.int64(3)}, "int, but a NumPy int64 came"),
        ({"label": torch.tensor(3)}, r"int, but a tensor of int64, shape \(\) came"),
        ({"label": 1 << 63}, r"int, but an int \(9223372036854775808\) came: it does not fit into 64 bits"),
        ({"label": "3"}, r"int, but a str \('3'\) came"),
        ({"meta": {"path": 5}}, r"'meta.path': expected str, but an int \(5\) came" + HINT % "meta.path"),
        (
            {"meta": {"box": Point(1, 2)}},
            r"'meta.box': expected named tuple Box\(low, high, label\), but a Point",
        ),
        ({"meta": {"box": (0.5, None, 1)}}, r"named tuple Box\(low, high, label\), but a tuple of 3 came"),
        (
            {"meta": {"box": Box(0.5, 1, torch.tensor(2))}},
            r"'meta.box.high': expected None, but an int \(1\) came",
        ),
        (
            {"meta": {"box": Box(0.5, None, torch.ones(2))}},
            "'meta.box.label': expected 0-d tensor of int64, but a tensor of f",
        ),
        (
            {"meta": {"box": Box(0.5, None, torch.ones(2, dtype=torch.int64))}},
            "0-d tensor of int64, but a tensor of int64",
        ),
        ({"meta": [1]}, "'meta': expected dict, but a list of 1 came"),
        ({"meta": OrderedDict(path="a")}, "'meta': expected dict, but an OrderedDict came"),
        ({"mask": np.ones(2, np.uint8)}, "ndarray of bool, but an ndarray of uint8"),
        ({"mask": np.ma.masked_array([True], [True])}, "'mask' cannot be stored: it is a masked array"),
        ({"count": np.int32(7)}, "NumPy scalar of int16, but a NumPy int32 came"),
        ({"count": 7}, r"NumPy scalar of int16, but an int \(7\) came"),
        ({"ids": [1, {2}]}, "'ids' cannot be stored: it is a builtins.set"),
        ({"raw": "abc"}, r"bytes, but a str \('abc'\) came"),
        ({"raw": bytearray(b"abc")}, "bytes, but a bytearray came"),
        ({"flag": 1}, r"bool, but an int \(1\) came"),
        ({"never": 0}, r"'never': expected None, but an int \(0\) came" + HINT % "never"),
        ({"order": OrderedDict(b=2, a=1)}, "'order': expected OrderedDict, .*its keys have another order"),
        ({"order": {"a": 1, "b": 2}}, "OrderedDict, but a dict of 2 came"),
        ({"pair": (1,)}, "'pair': expected tuple of 2, but a tuple of 1 came"),
        ({"pair": [1, "x"]}, "tuple of 2, but a list of 2 came"),
        ({"level": np.ones(1)}, "0-d ndarray of float64, but an ndarray of float64"),
        ({"level": 1.5}, "0-d ndarray of float64, but a float"),
        (
            {"labels": 3},
            r"the sample has a key 'labels' that is not in the schema \(keys: 'image', 'label'.*\); if some samples "
            r"have it, make a new store at another path with fields=\{'labels': cw.Field\(varies=True\)\}$",
        ),
        (
            {"meta": {"paht": "a"}},
            r"field 'meta' has a key 'paht' that is not in the schema \(keys: 'path', 'box'\); .*'meta.paht'",
        ),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        flatten(SCHEMA, changed(**changes))
    assert flatten(SCHEMA, SAMPLE).columns  # and the next sample is taken


@pytest.mark.parametrize("key", [7.0, 8, (1,), "7"])
def test_keys_of_another_type_are_no_keys_of_the_schema(key: Any) -> None:
    sample = {"image": SAMPLE["image"], key: 2j}
    with pytest.raises(UsageError, match="that is not in the schema"):
        flatten(SCHEMA, sample)


def test_samples_that_are_no_containers() -> None:
    for wrong, message in (
        (None, "a sample is None"),
        (3, r"the sample: expected dict, but an int \(3\) came$"),
    ):
        with pytest.raises(UsageError, match=message):
            flatten(SCHEMA, wrong)
    with pytest.raises(UsageError, match="a sample is None"):
        flatten(infer([3]), None)
    with pytest.raises(UsageError, match="field 'value': expected int"):
        flatten(infer([3]), "x")


def test_named_tuples_fit_by_name_and_fields() -> None:
    schema = infer([Point(1, 2)])
    assert flatten(schema, fresh_class("Point", ("x", "y"))(1, 2)) == flatten(schema, Point(1, 2))
    for wrong in (fresh_class("Point", ("x", "z"))(1, 2), fresh_class("Pixel", ("x", "y"))(1, 2), (1, 2)):
        with pytest.raises(UsageError, match=r"named tuple Point\(x, y\)"):
            flatten(schema, wrong)
