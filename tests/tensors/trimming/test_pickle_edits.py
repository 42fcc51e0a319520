"""Changes in a pickle: only where they are safe, and nothing else is touched."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.tensors.saving.pickle_codes import integer, integers, text
from cordwood.tensors.trimming.pickle_edits import Edits, span, without_frames
from cordwood.tensors.unpickle.describe import Description, describe
from cordwood.tensors.unpickle.machine import Spanned
from tests.tensors.support import craft


def described(*opcodes: bytes) -> Description:
    return describe(craft.pickled(*opcodes), "x")


def spans(found: Description) -> list[tuple[int, int]]:
    assert isinstance(found.root, Spanned)
    return [span(found.root.starts, index) for index in range(len(found.root))]


def test_spans_are_where_the_items_are() -> None:
    items = [craft.integer(300), craft.text("name"), craft.tup(1, (2, 3)) + craft.put(4)]
    for code in (craft.tup(*items), b"".join(items) + b"\x87"):
        found = described(code)
        assert [found.machine.data[start:end] for start, end in spans(found)] == items


def test_replacing_changes_one_item() -> None:
    found = described(craft.tup(1, "name", (2, 3), None))
    places = spans(found)
    edits = Edits(found.machine)
    edits.replace(*places[0], integer(70_000))
    edits.replace(*places[1], text("another"))
    edits.replace(*places[2], integers((9, 8, 7, 6)))
    assert pickle.loads(edits.apply()) == (70_000, "another", (9, 8, 7, 6), None)
    assert pickle.loads(Edits(found.machine).apply()) == (1, "name", (2, 3), None)


def test_inserting_and_deleting() -> None:
    found = described(craft.tup(1, 2, 3))
    places = spans(found)
    edits = Edits(found.machine)
    edits.insert(places[1][0], integer(10))
    edits.insert(places[1][0], integer(11))
    edits.replace(*places[1], integer(12))
    edits.delete(*places[2])
    assert pickle.loads(edits.apply()) == (1, 10, 11, 12)


def test_changes_that_overlap_are_a_mistake() -> None:
    found = described(craft.tup(1, 2, 3))
    places = spans(found)
    edits = Edits(found.machine)
    edits.replace(places[0][0], places[1][1], integer(5))
    edits.replace(*places[1], integer(6))
    with pytest.raises(ValueError, match="two changes"):
        edits.apply()


def test_the_memo_keeps_its_numbers() -> None:
    """What was put there is put there still: by number, or by being the next one."""
    by_number = described(craft.tup(craft.tup(1, 2) + craft.put(0), "a"))
    in_turn = described(b"(" + craft.tup(1, 2) + b"\x94" + craft.text("a") + b"\x94h\x01t")
    for found, wanted in ((by_number, ((5,), "a")), (in_turn, ((5,), "a", "a"))):
        edits = Edits(found.machine)
        place = spans(found)[0]
        assert edits.can_replace(*place)
        edits.replace(*place, integers((5,)))
        assert pickle.loads(edits.apply()) == wanted


@pytest.mark.parametrize(
    ("code", "is_integer", "can_replace"),
    [
        (b"K\x05", True, True),
        (b"M\x05\x00", True, True),
        (b"J\x05\x00\x00\x00", True, True),
        (b"\x8a\x02\x05\x01", True, True),
        (b"\x8a\x00", True, True),
        (b"\x8b\x01\x00\x00\x00\x05", False, False),
        (b"K\x05" + craft.put(3), False, True),
        (b"K\x05N0", False, False),
        (b"\x88", False, False),
        (b"N", False, False),
        (b")", False, True),
        (b"K\x05\x85", False, True),
        (b"K\x05K\x06\x86", False, True),
        (b"K\x05K\x06K\x07\x87", False, True),
        (b"(K\x05K\x06K\x07K\x08t", False, True),
        (b"(K\x05K\x06tq\x03", False, True),
        (b"(K\x05q\x02K\x06tq\x03", False, False),
        (b"(K\x05q\x02K\x06t", False, False),
        (b"(K\x05K\x06tq\x03q\x04", False, False),
        (craft.text("key"), False, True),
        (b"\x8c\x03key", False, True),
        (b"U\x03key", False, True),
        (b"T\x03\x00\x00\x00key", False, True),
        (b"]", False, False),
        (b"]K\x01a", False, False),
        (craft.glob("a.b"), False, False),
        (craft.call("a.b"), False, False),
        (b"K\x052", False, False),
    ],
)
def test_what_may_be_replaced(code: bytes, is_integer: bool, can_replace: bool) -> None:
    extra = b"0" if code.endswith(b"2") else b""  # one value more on the stack
    found = described(b"(" + code + extra + b"Nt")
    place = spans(found)[0]
    place = place[0], place[0] + len(code)
    edits = Edits(found.machine)
    assert edits.is_integer(*place) == is_integer
    assert edits.can_replace(*place) == can_replace


def test_what_is_used_elsewhere_may_not_be_replaced() -> None:
    for code, may in [
        (craft.tup(craft.tup(1, 2) + craft.put(7), 3), True),
        (craft.tup(craft.tup(1, 2) + craft.put(7), craft.get(7)), False),
        (craft.tup(craft.tup(1, 2) + craft.put(7), b"h\x07"), False),
    ]:
        found = described(code)
        assert Edits(found.machine).can_replace(*spans(found)[0]) == may
    found = described(craft.tup(craft.tup(1, 2) + craft.put(7), craft.get(7)))
    edits = Edits(found.machine)
    assert edits.can_replace(*spans(found)[1])  # the use itself may be
    edits.replace(*spans(found)[1], integers((4,)))
    assert pickle.loads(edits.apply()) == ((1, 2), (4,))


def test_nothing_is_nothing() -> None:
    edits = Edits(described(craft.tup(1)).machine)
    assert not edits.is_integer(5, 5)
    assert not edits.can_replace(5, 5)


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=30) | st.binary(max_size=30),
    lambda inner: st.lists(inner, max_size=5) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=40,
)


@given(values, st.integers(0, 5))
def test_a_pickle_that_is_not_changed_is_the_same(value: Any, protocol: int) -> None:
    pickled = pickle.dumps(value, max(protocol, 2))
    found = describe(b"before" + pickled + b"behind", "x", 6)
    if not found.machine.frames:
        assert Edits(found.machine).apply() == pickled
    assert pickle.loads(without_frames(found.machine)) == value


def test_frames_are_left_out() -> None:
    value = [(f"{index:03000}", index, (index, index + 1)) for index in range(100)]
    pickled = pickle.dumps(value, 4)
    found = describe(pickled, "x")
    assert len(found.machine.frames) > 3
    plain = without_frames(found.machine)
    assert len(plain) == len(pickled) - 9 * len(found.machine.frames)
    assert not describe(plain, "x").machine.frames
    assert pickle.loads(plain) == value
