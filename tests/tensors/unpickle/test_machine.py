"""The pickle machine: plain values come back as they were, spans tell the right bytes, and nothing else happens."""

import io
import pickle
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import FormatError
from cordwood.tensors.unpickle.allowlist import Allowed
from cordwood.tensors.unpickle.describe import Call, Describer, describe
from cordwood.tensors.unpickle.machine import Machine, Spanned
from cordwood.tensors.unpickle.opcode_handlers import DEEPEST
from tests.tensors.support.craft import get, glob, pickled, put, text

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 3000), 1 << 3000)
    | st.floats()
    | st.text(st.characters())  # surrogates, too
    | st.binary(min_size=1)  # protocol 2 writes b"" as a call of bytes(), which torch does not allow either
)
KEYS = st.text() | st.integers() | st.tuples(st.integers(), st.text()) | st.binary(min_size=1)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.tuples(inner) | st.dictionaries(KEYS, inner),
    max_leaves=30,
)


def no_storage(identity: Any) -> Any:
    raise AssertionError(f"asked for a storage, {identity}")


def run(data: bytes) -> Any:
    machine = Machine(data, Allowed(no_storage, "x", size=len(data)), "x")
    value = machine.run()
    assert machine.position == len(data)
    return value


def same(a: Any, b: Any) -> bool:
    """Equal, also where a number is not a number, and of one type."""
    return pickle.dumps(a, 5) == pickle.dumps(b, 5) or (type(a) is type(b) and repr(a) == repr(b))


@given(VALUES, st.integers(2, 5))
def test_plain_values_come_back(value: Any, protocol: int) -> None:
    assert same(run(pickle.dumps(value, protocol)), value)


@given(st.sets(KEYS), st.binary(), st.complex_numbers(allow_nan=False), st.integers(2, 5))
def test_sets_bytearrays_and_complex_numbers_come_back(items: Any, raw: bytes, number: complex, protocol: int) -> None:
    value = [items, bytearray(raw), number]
    assert run(pickle.dumps(value, protocol)) == value


@given(st.frozensets(KEYS), st.integers(4, 5))
def test_frozen_sets_come_back(items: Any, protocol: int) -> None:
    assert run(pickle.dumps(items, protocol)) == items


def test_shared_and_cyclic_values_stay_so() -> None:
    shared: list[Any] = [1]
    shared.append(shared)
    for protocol in (2, 3, 4, 5):
        a, b = run(pickle.dumps((shared, shared), protocol))
        assert a is b
        assert a[1] is a


def spanned(node: Any) -> Iterator[Spanned]:
    if isinstance(node, Spanned):
        yield node
    for inner in node.items() if isinstance(node, dict) else node if isinstance(node, list | tuple) else ():
        yield from spanned(inner)


@given(VALUES, st.integers(2, 3))
def test_a_span_is_a_pickle_of_its_item(value: Any, protocol: int) -> None:
    """Protocols 2 and 3 number the memo in the bytes, so that a part can be read by itself with the whole's memo."""
    data = pickle.dumps(value, protocol)
    description = describe(data, "x")
    for found in spanned(description.root):
        assert len(found.starts) == len(found) + 1
        for item, start, end in zip(found, found.starts[:-1], found.starts[1:], strict=True):
            machine = Machine(data[start:end] + b".", Describer(), "x")
            machine.memo = dict(description.machine.memo)
            assert same(plain(machine.run()), plain(item))


def plain(value: Any) -> Any:
    """Without spans, and with calls told by their parts."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return list(map(plain, value))
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return ("call", value.name, plain(value.arguments)) if isinstance(value, Call) else value


@given(VALUES, st.integers(2, 5), st.data())
def test_a_pickle_that_is_cut_is_refused(value: Any, protocol: int, data: st.DataObject) -> None:
    whole = pickle.dumps(value, protocol)
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(FormatError) as caught:
        run(whole[:length])
    assert caught.value.reason == 1  # truncated: more of the file may help


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for hooks in (Describer(), Allowed(no_storage, "x")):
        try:
            Machine(data + b".", hooks, "x").run()
        except FormatError:
            pass
        except AssertionError as error:
            assert "asked for a storage" in str(error)


REFUSED = {
    b"": "ends before its STOP",
    b"NN.": "2 values",
    b".": "0 values",
    b"(N.": "1 open marks",
    b"\x80\x06N.": "protocol 6",
    b"I1\n.": "opcode 0x49",
    b"t.": "never begun",
    b"\x85.": "a tuple of 1 with 0",
    b"h\x05.": "value 5 of the memo",
    b"KKs": "asks for more",
    b"R.": "asks for more",
    b"N)R.": "the file asks for a call of None",
    b"NNR.": "a call with a NoneType",
    b"}(NNNu.": "a key without a value",
    b"}]Ns.": "unhashable",
    b"NNa.": "items added to a NoneType",
    b"NNNs.": "keys set in a NoneType",
    b"NN\x93.": "name is not text",
    b"\x95\x00.": "a value of 8 bytes",
    b"\x8e" + b"\xff" * 8 + b".": "a value of 18446744073709551615 bytes",
    b"X\xff\xff\xff\xff.": "a value of 4294967295 bytes",
    b"X\x01\x00\x00\x00\xff.": "UnicodeDecodeError",
    b"cx": "a line that does not end",
    b"c" + b"x" * 2000 + b"\ny\n.": "a name of 2000 bytes",
    b"(" * (DEEPEST + 1): f"nested more than {DEEPEST} deep",
}


@pytest.mark.parametrize("data", REFUSED, ids=list(REFUSED.values()))
def test_wrong_bytes_are_refused_with_the_reason(data: bytes) -> None:
    with pytest.raises(FormatError, match=REFUSED[data]):
        run(data)


def test_a_pickle_ends_where_it_ends() -> None:
    machine = Machine(b"\x80\x02K\x07.rest", Describer(), "x")
    assert machine.run() == 7
    assert machine.position == 5
    assert Machine(b"xxK\x08.", Describer(), "x", start=2).run() == 8


def test_strings_of_python_2_are_text_as_far_as_they_are() -> None:
    data = b"(U\x02ab" + b"U\x01\xffT" + struct.pack("<I", 1) + b"c" + b"t."
    assert Machine(data, Describer(), "x").run() == ("ab", b"\xff", "c")
    assert Machine(data, Describer(), "x", encoding="bytes").run() == (b"ab", b"\xff", b"c")


def test_errors_of_the_world_are_told_in_few_words() -> None:
    class Failing(Describer):
        def find_global(self, module: str, name: str) -> Any:
            raise RuntimeError("x" * 100_000 + "\nmore")

    with pytest.raises(FormatError) as caught:
        Machine(pickled(glob("a.b")), Failing(), "x").run()
    assert len(str(caught.value)) < 500
    assert "RuntimeError: xxx" in str(caught.value)


def test_errors_of_the_disk_are_not_the_files_fault() -> None:
    class Failing(Describer):
        def find_global(self, module: str, name: str) -> Any:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        Machine(pickled(glob("a.b")), Failing(), "x").run()


@pytest.mark.slow
def test_room_is_for_all_values_together() -> None:
    data = pickled(b"(" + b"]" * 300_000 + b"t")
    assert len(Machine(data, Describer(), "x", room=100_000_000).run()) == 300_000
    with pytest.raises(FormatError, match="more memory than the limit") as caught:
        Machine(data, Describer(), "x", room=0).run()
    assert caught.value.reason_name == "limit"


def test_keys_may_be_many_as_long_as_their_hashes_differ() -> None:
    value = {(i, str(i)): i for i in range(5000)} | {i << 70: i for i in range(5000)} | {-1: 1, -2: 2}
    assert run(pickle.dumps(value, 2)) == value
    often = [{(1, 2): i, (1 << 80): i} for i in range(2000)]
    assert run(pickle.dumps(often, 2)) == often


def test_a_key_that_is_set_again_counts() -> None:
    data = pickled(b"}" + text("k") + put(1) + b"Ns" + (get(1) + b"Ns") * 1000)
    assert run(data) == {"k": None}


def test_python_reads_what_the_machine_reads() -> None:
    """Opcodes that no pickler of today writes, compared with Python's own."""
    for data in (b"(K\x01K\x02l.", b"(K\x01K\x02d.", b"(K\x01K\x020t.", b"(K\x011N.", b"K\x012\x86.", b"((0N1K\x03."):
        assert run(data) == pickle.load(io.BytesIO(data))
