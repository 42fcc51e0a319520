"""Pickles that were made to do harm: each is refused with a FormatError, quickly and in little memory."""

import io
import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cordwood
from tests.tensors.support.craft import (
    EMPTY_HOOKS,
    archive,
    call,
    get,
    glob,
    integer,
    meta,
    one,
    persistent,
    pickled,
    put,
    storage,
    tensor,
    text,
    tup,
)

LONG, FLOAT, DOUBLE, QUANTIZED = (f"torch.{kind}Storage" for kind in ("Long", "Float", "Double", "QUInt8"))
UTILS = "torch._utils."
PER_TENSOR, PER_CHANNEL = glob("torch.per_tensor_affine"), glob("torch.per_channel_affine")

# Values that cost more than they seem: to print, to hash, to multiply, to repeat.
LAUGHS = b")" + b"".join(put(i) + b"0(" + get(i) * 10 + b"t" for i in range(60))
DEEP = b")" + b"\x85" * 5000
HUGE = integer(1 << 2_000_000)
LONG_TEXT = text("x" * 1_000_000)
CYCLE = b"]" + put(77) + get(77) + b"a"
VALUES = {"laughs": LAUGHS, "deep": DEEP, "huge": HUGE, "text": LONG_TEXT, "cycle": CYCLE, "tensor": tensor("1", 4)}

# Where such a value may stand.
PLACES: dict[str, Callable[[bytes], bytes]] = {
    "persistent id": lambda bad: bad + b"Q",
    "part of an id": lambda bad: persistent(bad),
    "key": lambda bad: tensor(bad),
    "numel": lambda bad: tensor("0", bad),
    "location": lambda bad: call(
        UTILS + "_rebuild_tensor_v2", storage(location=bad), 0, (4,), (1,), False, EMPTY_HOOKS
    ),
    "size": lambda bad: tensor(size=bad),
    "one size": lambda bad: tensor(size=(bad,)),
    "all sizes": lambda bad: tensor(size=b"(" + bad + put(9) + get(9) * 63 + b"t", stride=b"(" + get(9) * 64 + b"t"),
    "offset": lambda bad: tensor(offset=bad),
    "hooks": lambda bad: tensor(hooks=bad),
    "metadata": lambda bad: tensor(metadata=bad),
    "layout": lambda bad: call("torch.serialization._get_layout", bad),
    "device": lambda bad: call("torch.device", bad),
    "encoding": lambda bad: call("_codecs.encode", "x", bad),
    "bytearray": lambda bad: call("builtins.bytearray", bad),
    "complex": lambda bad: call("builtins.complex", bad),
    "function": lambda bad: call(bad),
    "class": lambda bad: bad + b")\x81",
    "state": lambda bad: EMPTY_HOOKS + bad + b"b",
    "state of a tensor": lambda bad: tensor() + bad + b"b",
    "parameter's state": lambda bad: call(
        UTILS + "_rebuild_parameter_with_state", tensor(), True, EMPTY_HOOKS, tup(bad, bad)
    ),
    "tensor type": lambda bad: call(
        "torch._tensor._rebuild_from_type_v2", glob(UTILS + "_rebuild_tensor_v2"), bad, (), None
    ),
    "rebuild function": lambda bad: call("torch._tensor._rebuild_from_type_v2", bad, glob("torch.Tensor"), (), None),
    "dtype": lambda bad: call(
        UTILS + "_rebuild_tensor_v3",
        storage(kind="torch.storage.UntypedStorage", numel=16),
        *(0, (4,), (1,), False, EMPTY_HOOKS, bad),
    ),
    "item of a tensor": lambda bad: tensor() + bad + bad + b"s",
    "appended to a tensor": lambda bad: tensor() + bad + b"a",
    "global": lambda bad: bad + bad + b"\x93",
    "sparse": lambda bad: call(UTILS + "_rebuild_sparse_tensor", bad, bad),
    "nested": lambda bad: call(UTILS + "_rebuild_nested_tensor", bad, bad, bad, bad),
    "meta": lambda bad: meta(bad, bad),
    "parameter": lambda bad: call(UTILS + "_rebuild_parameter", bad, bad, EMPTY_HOOKS),
    "scheme": lambda bad: call(
        UTILS + "_rebuild_qtensor", storage("0", 16, QUANTIZED), 0, (4,), (1,), tup(bad, bad, bad), False, EMPTY_HOOKS
    ),
}
PAIRS = [(place, value) for place in PLACES for value in VALUES if (place, value) != ("parameter", "tensor")]


@pytest.mark.parametrize(("place", "value"), PAIRS)
def test_a_strange_value_is_refused_in_few_words(place: str, value: str) -> None:
    data = archive(pickled(PLACES[place](VALUES[value])), {"0": bytes(16), "1": bytes(16)})
    # A place that this machine does not have is the caller's to map.
    expected = cordwood.UsageError if (place, value) == ("location", "text") else cordwood.FormatError
    with pytest.raises(expected) as caught:
        cordwood.load(io.BytesIO(data))
    assert len(str(caught.value)) < 1000
    _only(data)


def _only(data: bytes, **options: Any) -> None:
    """By names: refused as well, or without the tensors that cannot be."""
    try:
        found = cordwood.load(io.BytesIO(data), only="*", **options)
    except (cordwood.FormatError, cordwood.UsageError) as error:
        assert len(str(error)) < 1000
    else:
        assert isinstance(found, dict)


def refused(opcodes: bytes, match: str, *, nbytes: int = 16, **options: Any) -> None:
    """By load; and by names nothing else happens than that."""
    data = archive(pickled(opcodes), {"0": bytes(nbytes), "1": bytes(nbytes), "2": bytes(nbytes)})
    with pytest.raises(cordwood.FormatError, match=match):
        cordwood.load(io.BytesIO(data), **options)
    _only(data, **options)


DEEP_KEYS = {
    "dict": b"}" + DEEP + b"Ns",
    "set": b"\x8f(" + DEEP + b"\x90",
    "frozenset": b"(" + DEEP + b"\x91",
    "set, called": call("builtins.set", b"]" + DEEP + b"a"),
    "Counter, called": call("collections.Counter", b"]" + DEEP + b"a"),
    "OrderedDict, called": call("collections.OrderedDict", b"]" + tup(DEEP, 1) + b"a"),
    "OrderedDict, set": EMPTY_HOOKS + DEEP + b"Ns",
    "billion laughs": b"}" + LAUGHS + b"Ns",
}


@pytest.mark.parametrize("container", DEEP_KEYS)
def test_keys_are_not_hashed_before_their_depth_is_known(container: str) -> None:
    refused(DEEP_KEYS[container], "nested more than 20 deep|far larger than the pickle")


COLLIDING = [integer((1 + i) * ((1 << 61) - 1)) for i in range(20_000)]
COSTLY_KEYS = {
    "one hash, at once": b"}(" + b"N".join(COLLIDING) + b"Nu",
    "one hash, one by one": b"}" + b"Ns".join(COLLIDING) + b"Ns",
    "one hash, a set": b"\x8f(" + b"".join(COLLIDING) + b"\x90",
    "one hash, a frozenset": b"(" + b"".join(COLLIDING) + b"\x91",
    "one hash, called": call("builtins.set", b"](" + b"".join(COLLIDING) + b"e"),
    "one hash, tuples": b"}(" + b"N\x85".join(COLLIDING) + b"\x85Nu",
    "a wide key, often": b"(" + b"N" * 20_000 + b"t" + put(1) + b"0}(" + (get(1) + b"N") * 20_000 + b"u",
    "a huge key, often": integer(1 << 800_000) + put(1) + b"0}(" + (get(1) + b"N") * 20_000 + b"u",
}


@pytest.mark.parametrize("kind", COSTLY_KEYS)
def test_keys_cannot_make_a_dict_slow(kind: str) -> None:
    refused(COSTLY_KEYS[kind], "keys of one hash|far larger than the pickle")


ITEMS = b"](" + b"".join(integer(i) for i in range(20_000)) + b"e" + put(1) + b"0"
RAW = b"B" + struct.pack("<I", 1 << 20) + bytes(1 << 20) + put(1) + b"0"
REPEATED = {
    "set": ITEMS + b"](" + (glob("builtins.set") + get(1) + b"\x85R") * 5000 + b"e",
    "Counter": ITEMS + b"](" + (glob("collections.Counter") + get(1) + b"\x85R") * 5000 + b"e",
    "Size": ITEMS + b"](" + (glob("torch.Size") + get(1) + b"\x85R") * 5000 + b"e",
    "bytearray": RAW + b"](" + (glob("builtins.bytearray") + get(1) + b"\x85R") * 5000 + b"e",
    "bytes": text("x" * (1 << 20)) + put(1) + b"0](" + call("_codecs.encode", get(1), "latin1") * 5000 + b"e",
    "sparse": b"]("
    + call(
        UTILS + "_rebuild_sparse_tensor",
        call("torch.serialization._get_layout", "torch.sparse_coo"),
        tup(
            tensor(numel=2, kind=LONG, size=(1, 1_000_000), stride=(0, 0)), tensor(size=(1_000_000,), stride=(0,)), (5,)
        ),
    )
    * 100
    + b"e",
}


@pytest.mark.parametrize("kind", REPEATED)
def test_what_is_asked_for_again_and_again_is_refused(kind: str) -> None:
    refused(REPEATED[kind], "may be a bomb")


def test_values_that_outgrow_the_limit_are_refused() -> None:
    refused(b"(" + b"\x8f" * 1_000_000 + b"t", "more memory than the limit", limit=2_000_000)


NAMES = {
    "a long key above many tensors": b"}" + text("k" * 100_000) + b"](" + tensor() + put(1) + get(1) * 20_000 + b"es",
    "billion laughs": LAUGHS,
    "lists met often": ITEMS + b"](" + (glob("builtins.set") + get(1) + b"\x85R") * 5000 + b"e",
    "deep": DEEP,
}


@pytest.mark.parametrize("kind", NAMES)
def test_names_are_not_longer_than_what_is_named(kind: str) -> None:
    with pytest.raises(cordwood.FormatError, match=r"nested in each other|far longer than itself"):
        cordwood.load(io.BytesIO(one(NAMES[kind])), only="*")


def test_a_tensor_in_itself_is_refused_by_name() -> None:
    state = b"}" + put(6)
    opcodes = call(UTILS + "_rebuild_parameter_with_state", tensor(), True, EMPTY_HOOKS, state) + put(5)
    with pytest.raises(cordwood.FormatError, match="nested in itself"):
        cordwood.load(io.BytesIO(one(opcodes + b"0" + get(6) + text("me") + get(5) + b"s0" + get(5))), only="*")


VIEWS: dict[str, tuple[dict[str, Any], str]] = {
    "one item too many": ({"size": (5,)}, "needs 20 bytes"),
    "offset too far": ({"offset": 1}, "needs 20 bytes"),
    "stride too far": ({"stride": (2,)}, "needs 28 bytes"),
    "negative size": ({"size": (-1,)}, "-1 among"),
    "negative stride": ({"stride": (-1,)}, "-1 among"),
    "negative offset": ({"offset": -1}, "storage offset -1"),
    "bool for a size": ({"size": (True,)}, "True among"),
    "float for a stride": ({"stride": (1.0,)}, "1.0 among"),
    "numel that overflows": ({"size": (1 << 40, 1 << 40), "stride": (0, 0)}, "a tensor of size"),
    "strides that overflow": ({"size": (3, 3), "stride": (1 << 62, 1 << 62)}, "among the sizes or strides"),
    "empty, and overflows": ({"size": (0, 1 << 50, 1 << 50), "stride": (0, 0, 0)}, "a tensor of size"),
    "numel of 2**63": ({"numel": 1 << 63}, "9223372036854775808 items"),
    "negative numel": ({"numel": -4}, "-4 items"),
    "another numel than the record": ({"numel": 3, "size": (3,)}, "has 16 bytes, and the pickle says"),
    "another type than the record": ({"kind": DOUBLE}, "has 16 bytes, and the pickle says"),
    "too many dimensions": ({"size": (1,) * 65, "stride": (1,) * 65}, "65 in all"),
    "size and stride differ": ({"size": (2, 2)}, "do not fit together"),
    "no such record": ({"key": "9"}, "no record archive/data/9"),
    "a list for the size": ({"size": [4]}, "do not fit together"),
    "gradient of integers": ({"kind": LONG, "numel": 2, "size": (2,), "requires_grad": True}, "floating point"),
    "conjugate of reals": ({"metadata": {"conj": True}}, "not complex"),
    "unknown metadata": ({"metadata": {"evil": True}}, "tensor metadata"),
    "hooks": ({"hooks": {1: 2}}, "hooks, which are code"),
    "quantized without scale": ({"kind": QUANTIZED, "numel": 16}, "scale and zero point"),
}


@pytest.mark.parametrize("kind", VIEWS)
def test_a_tensor_that_does_not_fit_its_storage_is_refused(kind: str) -> None:
    arguments, match = VIEWS[kind]
    refused(tensor(**arguments), match)


def test_one_storage_has_one_size() -> None:
    refused(tup(tensor(), tensor(numel=2, size=(2,))), "two sizes|has 16 bytes")


def test_a_class_is_not_a_storage() -> None:
    refused(
        call(UTILS + "_rebuild_tensor_v2", glob(FLOAT), 0, (4,), (1,), False, EMPTY_HOOKS), "over a StorageKind, not"
    )


def test_integers_take_no_gradient_as_a_parameter() -> None:
    integers = tensor(kind=LONG, numel=2, size=(2,))
    refused(call(UTILS + "_rebuild_parameter", integers, True, EMPTY_HOOKS), "floating point")
    refused(glob("torch.nn.parameter.Parameter") + tup(integers) + b"\x81", "floating point")


def test_a_tensor_without_memory_is_not_larger_than_torch_can_count() -> None:
    assert cordwood.load(io.BytesIO(one(meta((1 << 50,), (1,))))).shape == (1 << 50,)
    refused(meta((1 << 40, 1 << 40), (0, 0)), "a tensor of size")
    refused(meta((1 << 30,), (1 << 40,)), "a tensor of size")


@pytest.mark.parametrize("device", ["cuda", "cuda:99", "xla", "hpu", "mps", "privateuseone", "x" * 1000, ""])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    opcodes = call(UTILS + "_rebuild_device_tensor_from_cpu_tensor", tensor(), glob("torch.float32"), device, False)
    refused(opcodes, "_rebuild_device_tensor_from_cpu_tensor: ")


def test_an_expanded_tensor_is_not_written_out() -> None:
    wide = tensor(size=(1 << 34,), stride=(0,))
    refused(call(UTILS + "_rebuild_device_tensor_from_cpu_tensor", wide, glob("torch.float64"), "cpu", False), "a bomb")


@pytest.mark.parametrize("name", ["data", "grad", "__class__", "requires_grad", "grad_fn", "_backward_hooks"])
def test_an_attribute_that_torch_computes_is_refused(name: str) -> None:
    arguments = tup(storage(), 0, (4,), (1,), False, EMPTY_HOOKS)
    function, kind = glob(UTILS + "_rebuild_tensor_v2"), glob("torch.Tensor")
    refused(call("torch._tensor._rebuild_from_type_v2", function, kind, arguments, {name: 1}), f"attribute '{name}'")


def test_a_container_is_not_made_of_a_tensor() -> None:
    for name in ("collections.OrderedDict", "collections.Counter", "builtins.set"):
        refused(call(name, tensor()), "of a Tensor")
    refused(call("collections.OrderedDict", [meta((1 << 40,), (1,))]), "other things than pairs")


def test_a_number_of_bytes_is_not_reserved() -> None:
    refused(call("builtins.bytearray", 10**12), "not made of bytes")


def test_the_message_of_a_refused_global_tells_how_to_allow_it() -> None:
    with pytest.raises(cordwood.FormatError, match=r"the global os\.system, .*add_safe_globals"):
        cordwood.load(io.BytesIO(one(call("os.system", "touch /tmp/never"))))


def test_results_are_tensors_all_the_same() -> None:
    """The builders of this file make good files, too: what is refused above is refused for the reason told."""
    loaded = cordwood.load(io.BytesIO(one(tensor(size=(2, 2), stride=(2, 1)))))
    assert torch.equal(loaded, torch.zeros(2, 2))
