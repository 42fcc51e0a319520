"""Batches of every nesting, rebuilt around changed tensors as torch's DataLoader does when it pins memory."""

from collections import OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from cordwood.feed.device.nesting import replaced

ONE, TWO = torch.ones(2), torch.full((2,), 2.0)


class Point(NamedTuple):
    x: Any
    y: Any


class Noted(dict[str, Any]):
    """A dictionary that carries more than its items."""

    note = ""


class Frozen(Mapping[str, Any]):
    """A mapping that cannot be made from a dictionary."""

    def __init__(self, first: Any, second: Any) -> None:
        self._items = {"first": first, "second": second}

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class Pair(Sequence[Any]):
    """A sequence that cannot be made from a list."""

    def __init__(self, first: Any, second: Any) -> None:
        self._values = (first, second)

    def __getitem__(self, position: Any) -> Any:
        return self._values[position]

    def __len__(self) -> int:
        return 2


class Movable:
    """Knows how to move."""

    def to(self, device: Any) -> str:
        return f"moved to {device}"


class MovableMapping(dict[str, Any]):
    def to(self, device: Any) -> str:
        return f"moved to {device}"


class StreamMapping(MovableMapping):
    def record_stream(self, stream: Any) -> None: ...


def negative(leaf: Any) -> Any:
    return -leaf if isinstance(leaf, torch.Tensor) else leaf


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (ONE, -ONE),
        ({"a": ONE, "b": [TWO, "text"]}, {"a": -ONE, "b": [-TWO, "text"]}),
        ((ONE, 3), (-ONE, 3)),
        (Point(ONE, {"deep": (TWO,)}), Point(-ONE, {"deep": (-TWO,)})),
        (OrderedDict(b=ONE, a=TWO), OrderedDict(b=-ONE, a=-TWO)),
        (UserDict(a=ONE), UserDict(a=-ONE)),
        (UserList([ONE]), UserList([-ONE])),
        (deque([ONE, TWO]), deque([-ONE, -TWO])),
        (MappingProxyType({"a": ONE}), MappingProxyType({"a": -ONE})),
        (Frozen(ONE, 2), {"first": -ONE, "second": 2}),
        (Pair(ONE, 2), [-ONE, 2]),
        (torch.max(torch.eye(2), 0), (-torch.ones(2), -torch.tensor([0, 1]))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_containers_are_rebuilt(data: Any, expected: Any) -> None:
    result = replaced(data, negative)
    assert type(result) is (type(data) if not isinstance(data, Frozen | Pair) else type(expected))
    assert _plain(result) == _plain(expected)


def _plain(data: Any) -> Any:
    if isinstance(data, Mapping):
        return [(key, _plain(value)) for key, value in data.items()]
    if isinstance(data, torch.Tensor):
        return data.tolist()
    return [_plain(value) for value in data] if isinstance(data, Sequence) and not isinstance(data, str) else data


def test_a_type_of_ones_own_keeps_what_else_it_carries() -> None:
    data = Noted(a=ONE)
    data.note = "kept"
    result = replaced(data, negative)
    assert (type(result), result.note) == (Noted, "kept")
    assert result["a"] is not ONE
    assert data["a"] is ONE
    counts: defaultdict[str, Any] = defaultdict(int, a=ONE)
    assert replaced(counts, negative)["absent"] == 0


@pytest.mark.parametrize(
    "data",
    [{"a": [1, "text", None]}, range(3), (1, (2, b"x")), Point(1, 2), "text", bytearray(b"x"), None, Pair(1, "a")],
    ids=lambda data: type(data).__name__,
)
def test_what_needs_no_change_is_given_back_itself(data: Any) -> None:
    assert replaced(data, negative) is data


def test_objects_that_know_how_to_move_are_not_looked_into() -> None:
    seen: list[Any] = []
    packed = pack_sequence([ONE, TWO])
    objects = [Movable(), packed, StreamMapping(a=ONE), MovableMapping(a=TWO)]
    replaced(objects, seen.append)
    assert [type(leaf) for leaf in seen] == [Movable, type(packed), StreamMapping, torch.Tensor]
    assert seen[3] is TWO
