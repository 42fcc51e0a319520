"""The schema of a store: what every sample is made of, and where each part of it lies in a row.

    >>> schema = Schema(Node("dict", keys=("image", "label"), items=(Node("tensor", dtype="uint8"), scalar("int"))))
    >>> schema.names
    ('image', 'label')

A *leaf* is what holds a value; its name is the path of keys to it, joined by dots. Leaves of arrays, texts and bytes
have a frame a sample; numbers, and arrays whose node has a shape, lie in columns. A *place* is anything in the tree but
the root: it may be absent from a sample or None there, which its two bits in the row tell. A place that always is None
is no leaf.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from cordwood.codecs import DTYPES
from cordwood.common.suggest import did_you_mean
from cordwood.common.text import brief
from cordwood.errors import FormatError, UsageError
from cordwood.store.schema.field import can_store
from cordwood.store.schema.node import (
    ARRAYS,
    CONTAINERS,
    FRAME_LEAVES,
    PYTHON_NUMBERS,
    Node,
    node_from_json,
    node_to_json,
)

ROOT_NAME: Final = "value"  # of a sample that is a leaf itself
MOST_PLACES: Final = 1 << 16
MOST_LETTERS: Final = 1 << 24  # in all names: a long key stands in the name of everything below it
# The states of a place. APART: present, and its column tells where the frame of an array of another shape is.
PRESENT, ABSENT, NONE, APART = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part of a sample that holds a value: a field."""

    name: str
    node: Node
    number: int  # among the leaves
    state: int  # the number of its place, -1 if it is the whole sample
    frame: int  # among the leaves with frames, or -1
    column: int  # among the leaves with columns, or -1
    stored: str | None  # the dtype that frames hold

    @property
    def store_as(self) -> str | None:
        """The narrower dtype that the caller asked for, if one was."""
        return self.stored if self.frame >= 0 and self.node.kind in ARRAYS and self.stored != self.node.dtype else None

    @property
    def is_column_array(self) -> bool:
        """Whether it holds arrays that lie in a column."""
        return self.node.shape is not None


@dataclass(frozen=True, slots=True)
class SchemaNode:
    """A node where it stands in the tree."""

    name: str
    node: Node
    number: int  # in depth-first order, the root is -1
    parent: int  # the number of the container's place; the root's own is -1, too
    end: int  # places of its subtree have the numbers up to here
    leaves: range  # the numbers of the leaves in it


class Schema:
    """What samples of a store are made of; it never changes.

    ::

        schema = cw.open("train.cordwood").schema
        schema.names          # ("image", "label", "meta.path")
        print(schema)
    """

    def __init__(self, root: Node, store_as: Mapping[str, str] | None = None) -> None:
        """Of this tree; `store_as` has the narrower dtype of those leaves whose frames do not hold what was given."""
        if root.kind == "none":
            raise UsageError("a sample is None: a store keeps tensors, numbers, texts, and nestings of these")
        walk = _TreeNumbering(store_as or {})
        self.root = root
        self.place = walk.enter(root, None, "")
        self.places: tuple[SchemaNode, ...] = tuple(walk.places)
        self.leaves: tuple[Leaf, ...] = tuple(walk.leaves)
        self.frames = tuple(leaf for leaf in self.leaves if leaf.frame >= 0)
        self.columns = tuple(leaf for leaf in self.leaves if leaf.column >= 0)
        self.column_arrays = tuple(leaf for leaf in self.columns if leaf.is_column_array)
        self.names = tuple(leaf.name for leaf in self.leaves)
        self._by_name = {place.name: place for place in (self.places if root.kind in CONTAINERS else [self.place])}
        for name in (store_as or {}).keys() - {leaf.name for leaf in self.frames if leaf.node.kind in ARRAYS}:
            raise UsageError(f"store_as is for fields of float arrays, and {name!r} is none")

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes but the root, containers before their items; the number of a place is its index here."""
        return tuple(place.node for place in self.places)

    def find(self, name: str) -> SchemaNode:
        """The leaf or container of that name; UsageError lists what there is."""
        place = self._by_name.get(name)
        if place is None:
            raise UsageError(
                f"there is no field {name!r}; there are {shown_names(self._by_name)}{did_you_mean(name, self._by_name)}"
            )
        return place

    def leaf(self, name: str) -> Leaf:
        """The leaf of that name; UsageError lists the leaves."""
        place = self._by_name.get(name)
        if place is None or place.node.kind in CONTAINERS or not place.leaves:
            raise UsageError(
                f"there is no field {name!r}; there are {shown_names(self.names)}{did_you_mean(name, self.names)}"
            )
        return self.leaves[place.leaves.start]

    def children(self, place: SchemaNode) -> list[int]:
        """The numbers of a container's items."""
        numbers, number = [], place.number + 1
        while number < place.end:
            numbers.append(number)
            number = self.places[number].end
        return numbers

    @cached_property
    def hash(self) -> int:
        """Of everything that fixes the layout of rows and what frames hold."""
        told = {"schema": self.to_json(), "stored": [leaf.stored for leaf in self.frames]}
        text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return int.from_bytes(hashlib.blake2b(text.encode("ascii"), digest_size=8).digest(), "little")

    def to_json(self) -> dict[str, Any]:
        """The tree as plain JSON objects."""
        return node_to_json(self.root)

    @classmethod
    def from_json(cls, given: Any, store_as: Sequence[Any] | None = None) -> "Schema":
        """From what a file tells: the tree, and for each leaf None or the dtype it is stored as."""
        root = node_from_json(given)
        try:
            plain = cls(root)
            asked = [None] * len(plain.leaves) if store_as is None else list(store_as)
            if len(asked) != len(plain.leaves):
                raise FormatError(f"the schema has {len(plain.leaves)} fields, but {len(asked)} are described")
            narrower = {leaf.name: dtype for leaf, dtype in zip(plain.leaves, asked, strict=True) if dtype is not None}
            if not all(isinstance(dtype, str) and dtype in DTYPES for dtype in narrower.values()):
                raise FormatError(f"fields of the schema are stored as {brief(list(narrower.values()))}: no such dtype")
            made = cls(root, narrower)
        except UsageError as error:
            raise FormatError(f"the schema cannot be: {error}") from None
        if len(narrower) != sum(leaf.store_as is not None for leaf in made.leaves):
            raise FormatError("the schema says of a field that it is stored as the dtype it has anyway")
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self.root == other.root and self._stored == other._stored

    def __hash__(self) -> int:
        return self.hash

    @property
    def _stored(self) -> list[str | None]:
        return [leaf.stored for leaf in self.leaves]

    def __repr__(self) -> str:
        width = max((len(name) for name in self.names), default=0)
        return "\n".join(f"{leaf.name:{width}}  {described(leaf)}" for leaf in self.leaves) or "no fields"


class _TreeNumbering:
    """Numbers and names everything in a tree."""

    def __init__(self, store_as: Mapping[str, str]) -> None:
        self.store_as = store_as
        self.places: list[SchemaNode] = []
        self.leaves: list[Leaf] = []
        self.names: set[str] = set()
        self.letters = 0
        self.frames = self.columns = 0

    def enter(self, node: Node, parent: SchemaNode | None, label: str) -> SchemaNode:
        number = -1 if parent is None else len(self.places)
        if parent is None:
            name = "" if node.kind in CONTAINERS else ROOT_NAME
        else:
            name = label if parent.number < 0 else f"{parent.name}.{label}"
            if name in self.names:
                raise UsageError(
                    f"two parts of a sample are both called {name!r}: names are keys joined by dots; call one otherwise"
                )
            self.names.add(name)
            self.letters += len(name)
        first = len(self.leaves)
        place = SchemaNode(name, node, number, -1 if parent is None else parent.number, number + 1, range(first, first))
        if parent is not None:
            self.places.append(place)
        if len(self.places) > MOST_PLACES or self.letters > MOST_LETTERS:
            raise UsageError(
                f"a sample has more than {MOST_PLACES} parts, or their names more than {MOST_LETTERS} letters: keep a "
                "large collection as one field, Field(varies=True)"
            )
        if node.kind in CONTAINERS:
            for below, item in zip(node.labels, node.items, strict=True):
                self.enter(item, place, below)
        elif node.kind != "none":
            self.leaves.append(self.leaf(node, name, number))
        place = replace(place, end=len(self.places), leaves=range(first, len(self.leaves)))
        if parent is not None:
            self.places[number] = place
        return place

    def leaf(self, node: Node, name: str, state: int) -> Leaf:
        if node.shape is not None and state < 0:
            raise UsageError("a sample that is an array has a frame, but its node has a shape")
        if node.kind not in FRAME_LEAVES or node.shape is not None:
            self.columns += 1
            return Leaf(name, node, len(self.leaves), state, -1, self.columns - 1, None)
        self.frames += 1
        dtype = node.dtype if node.kind in ARRAYS else "uint8"
        stored = self.store_as.get(name, dtype)
        if stored != dtype and not can_store(node.dtype, stored):
            what = f"{node.kind} of {node.dtype}" if node.dtype else node.kind
            raise UsageError(f"field {name!r} ({what}) cannot be stored as {stored}: store_as rounds wider floats")
        return Leaf(name, node, len(self.leaves), state, self.frames - 1, -1, stored)


def described(leaf: Leaf) -> str:
    """What a leaf holds, in words: ``tensor of float32, stored as float16``."""
    shape = "" if leaf.node.shape is None else f", in columns of shape {leaf.node.shape}"
    return described_node(leaf.node) + shape + (f", stored as {leaf.store_as}" if leaf.store_as else "")


def described_node(node: Node) -> str:
    """A node in words: ``tensor of float32``, ``named tuple Box(x, y)``."""
    match node.kind:
        case "scalar":
            return node.type if node.type in PYTHON_NUMBERS else f"{_SCALARS[node.type]} {node.dtype}"
        case "tensor" | "ndarray":
            return f"{node.kind} of {node.dtype}"
        case "namedtuple":
            return f"named tuple {node.name}({', '.join(node.labels)})"
        case "list" | "tuple":
            return f"{node.kind} of {len(node.items)}"
        case kind:
            return _WORDS.get(kind, kind)


_SCALARS: Final = {"numpy": "NumPy scalar of", "tensor": "0-d tensor of", "ndarray": "0-d ndarray of"}
_WORDS: Final = {"any": "anything", "none": "None", "ordereddict": "OrderedDict"}


def shown_names(names: Sequence[str] | Mapping[str, object], most: int = 12) -> str:
    """Names for a message, the first ones of many."""
    shown = [brief(name) for name in list(names)[:most]]
    return ", ".join(shown) + (f", ... {len(names)} in all" if len(names) > most else "") if shown else "none"
