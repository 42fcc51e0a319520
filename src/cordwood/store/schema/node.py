"""The structure of a sample: a tree of containers and leaves, and how it is written as JSON.

    >>> Node("dict", keys=("image", "label"), items=(Node("tensor", dtype="uint8"), scalar("int")))

docs/format/store.md has the table of kinds. What comes from a file is checked here, so the rest of the store can trust
a node: its members fit its kind, and nothing is nested deeper than :data:`DEEPEST`.
"""

import keyword
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cordwood.codecs import DTYPES
from cordwood.common.text import brief
from cordwood.errors import FormatError

DEEPEST: Final = 64
DICTS: Final = ("dict", "ordereddict")
SEQUENCES: Final = ("list", "tuple")
CONTAINERS: Final = (*DICTS, *SEQUENCES, "namedtuple")
ARRAYS: Final = ("tensor", "ndarray")
BYTE_LEAVES: Final = ("str", "bytes", "any")  # frames of uint8, whatever they stand for
FRAME_LEAVES: Final = (*ARRAYS, *BYTE_LEAVES)
# Python's own numbers, and the dtype of their columns.
PYTHON_NUMBERS: Final = {"int": "int64", "float": "float64", "bool": "bool", "complex": "complex128"}
SCALAR_TYPES: Final = (*PYTHON_NUMBERS, "numpy", "tensor", "ndarray")
NOT_OF_NUMPY: Final = frozenset(name for name, dtype in DTYPES.items() if dtype.carrier != name)

MOST_COLUMN_BYTES: Final = 256  # of an array that lies in a column
MOST_DIMENSIONS: Final = 32  # as many as a frame has

# Beside its kind a node has these.
_MEMBERS: Final[dict[str, tuple[str, ...]]] = {
    "dict": ("keys", "items"),
    "ordereddict": ("keys", "items"),
    "list": ("items",),
    "tuple": ("items",),
    "namedtuple": ("name", "keys", "items"),
    "tensor": ("dtype",),
    "ndarray": ("dtype",),
    "scalar": ("type", "dtype"),
    "str": (),
    "bytes": (),
    "any": (),
    "none": (),
}


@dataclass(frozen=True, slots=True)
class Node:
    """A container with its items, or a leaf."""

    kind: str
    items: tuple["Node", ...] = ()
    keys: tuple[str | int, ...] = ()  # of a dict; the fields of a named tuple
    name: str = ""  # of a named tuple's class
    type: str = ""  # of a scalar: what it is in Python
    dtype: str = ""  # of arrays and scalars, in the codecs' words
    shape: tuple[int, ...] | None = None  # of arrays that lie in a column

    @property
    def labels(self) -> tuple[str, ...]:
        """What each item is called in the name of a field."""
        return tuple(map(str, self.keys)) if self.keys else tuple(map(str, range(len(self.items))))


def scalar(kind: str, dtype: str = "") -> Node:
    """A leaf of fixed size: ``scalar("int")``, ``scalar("tensor", "float32")``."""
    return Node("scalar", type=kind, dtype=dtype or PYTHON_NUMBERS[kind])


def node_to_json(node: Node) -> dict[str, Any]:
    """Plain JSON objects; :func:`node_from_json` reads them."""
    members = _MEMBERS[node.kind]
    made: dict[str, Any] = {"kind": node.kind}
    if "keys" in members:
        made["keys"] = list(node.keys)
    if "items" in members:
        made["items"] = [node_to_json(item) for item in node.items]
    for member in ("name", "type", "dtype"):
        if member in members:
            made[member] = getattr(node, member)
    if node.shape is not None:
        made["shape"] = list(node.shape)
    return made


def node_from_json(given: Any, depth: int = 0) -> Node:
    """The node that a file tells of; FormatError says what is wrong with it."""
    if depth >= DEEPEST:
        raise FormatError(f"the schema is nested deeper than {DEEPEST} levels")
    if not isinstance(given, dict):
        raise FormatError(f"the schema has {brief(given)} where a node is expected, an object with a kind")
    kind = given.get("kind")
    if type(kind) is not str or kind not in _MEMBERS:
        raise FormatError(f"the schema has a node of kind {brief(kind)}; known are {', '.join(_MEMBERS)}")
    for member in _MEMBERS[kind]:
        if member not in given:
            raise FormatError(f"a {kind} of the schema has no member {member!r}")
    if kind in CONTAINERS:
        return _container(kind, given, depth)
    if kind in (*ARRAYS, "scalar"):
        return _numbers(kind, given)
    return Node(kind)


def _container(kind: str, given: dict[str, Any], depth: int) -> Node:
    if not isinstance(given["items"], list):
        raise FormatError(f"the items of a {kind} of the schema are {brief(given['items'])}, not a list")
    items = tuple(node_from_json(item, depth + 1) for item in given["items"])
    if kind in SEQUENCES:
        return Node(kind, items)
    keys = given["keys"]
    if not isinstance(keys, list) or len(keys) != len(items):
        raise FormatError(f"a {kind} of the schema has {len(items)} items, but its keys are {brief(keys)}")
    if kind == "namedtuple":
        name = given["name"]
        if type(name) is not str or not all(type(key) is str for key in keys) or not is_named_tuple(name, keys):
            raise FormatError(
                f"a named tuple {brief(name)} with fields {brief(keys)}, as in the schema, cannot be made"
            )
        return Node(kind, items, tuple(keys), name)
    if not all(is_key(key) for key in keys) or len(set(keys)) != len(keys):
        raise FormatError(f"the keys of a {kind} of the schema are {brief(keys)}, not texts and integers, each once")
    return Node(kind, items, tuple(keys))


def _numbers(kind: str, given: dict[str, Any]) -> Node:
    dtype = given["dtype"]
    if type(dtype) is not str or dtype not in DTYPES:
        raise FormatError(f"a {kind} of the schema has dtype {brief(dtype)}; known are {', '.join(DTYPES)}")
    number = given["type"] if kind == "scalar" else ""
    if kind == "scalar":
        if type(number) is not str or number not in SCALAR_TYPES:
            raise FormatError(f"a scalar of the schema has type {brief(number)}; known are {', '.join(SCALAR_TYPES)}")
        if PYTHON_NUMBERS.get(number, dtype) != dtype:
            raise FormatError(f"a scalar of the schema is {number}, so {PYTHON_NUMBERS[number]}, but says {dtype}")
    if (kind == "ndarray" or number in ("numpy", "ndarray")) and dtype in NOT_OF_NUMPY:
        raise FormatError(f"the schema has a NumPy array of {dtype}, which NumPy has no name for")
    return Node(kind, type=number, dtype=dtype, shape=_shape(given, kind, dtype) if kind in ARRAYS else None)


def _shape(given: dict[str, Any], kind: str, dtype: str) -> tuple[int, ...] | None:
    """The shape that lets an array lie in a column; None where the node has none."""
    if "shape" not in given:
        return None
    shape = given["shape"]
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= MOST_DIMENSIONS
        or not all(type(size) is int and 1 <= size <= MOST_COLUMN_BYTES for size in shape)
        or math.prod(shape) * DTYPES[dtype].itemsize > MOST_COLUMN_BYTES
    ):
        raise FormatError(
            f"a {kind} of {dtype} of the schema has shape {brief(shape)}, but a shape must be a list of 1 to "
            f"{MOST_DIMENSIONS} sizes of at least 1 that make at most {MOST_COLUMN_BYTES} bytes"
        )
    return tuple(shape)


def is_key(key: object) -> bool:
    """Whether a dict's key can be part of a schema; dicts with other keys are stored as they come."""
    if type(key) is int:
        return -(1 << 63) <= key < 1 << 63
    # A lone surrogate may meet another one in JSON, and both come back as one character.
    return type(key) is str and not any("\ud800" <= letter <= "\udfff" for letter in key)


def is_named_tuple(name: str, fields: Sequence[str]) -> bool:
    """Whether a named tuple of that name and these fields can be made, by whoever reads it."""
    return (
        _is_name(name)
        and len(set(fields)) == len(fields)
        # _0, _1, ... is what namedtuple(rename=True) calls fields whose names it does not take.
        and all(_is_name(field) and (field[0] != "_" or field == f"_{place}") for place, field in enumerate(fields))
    )


def _is_name(name: str) -> bool:
    # Python reads source text in its normal form: another form is a name that no program can write.
    return name.isidentifier() and not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name
