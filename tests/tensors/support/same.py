"""Whether two objects with tensors inside are the same: in structure, bit for bit, and in what shares memory with what.

assert_same(torch.load("a.pt"), cw.load("a.pt"))
assert sharing({"w": w, "tied": w, "other": x}) == {("w", "tied")}
assert_shares_alike(saved, loaded)  # every byte that two views had in common, and no other
"""

import itertools
import math
import struct
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

COMPRESSED_ROWS = (torch.sparse_csr, torch.sparse_bsr)
COMPRESSED_COLUMNS = (torch.sparse_csc, torch.sparse_bsc)
VALUES = (type(None), bool, int, str, bytes, bytearray, range, torch.Size, torch.dtype, torch.device, torch.layout)
NAMES = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)  # pickled as the name of the thing


def assert_same(a: Any, b: Any, *, strides: bool = True, identity: bool = True) -> None:
    """Fail, naming the place, where the trees differ in anything that a program could see.

    `strides=False` lets strides differ, as they do where a view was closed up. `identity=False` lets one object here be
    two equal ones there.
    """
    _Comparison(strides, identity).compare(a, b, "")


def sharing(tree: Any) -> set[tuple[str, str]]:
    """The pairs of names, in the tree's order, whose tensors have at least one byte of memory in common."""
    parts = strided_parts(tree)
    pairs = set()
    for members in _components(parts):
        for first, second in itertools.combinations(members, 2):
            if np.shares_memory(bits(parts[first]), bits(parts[second])):
                pairs.add((first, second))
    return pairs


def assert_shares_alike(a: Any, b: Any) -> None:
    """Fail unless two elements anywhere in one tree have a byte in common exactly where they have it in the other."""
    in_a, in_b = strided_parts(a), strided_parts(b)
    assert list(in_a) == list(in_b), f"tensors are called {list(in_a)} in one, {list(in_b)} in the other"
    shared = {name for parts in (in_a, in_b) for group in _components(parts) if len(group) > 1 for name in group}
    shared |= {name for parts in (in_a, in_b) for name, part in parts.items() if _may_overlap_itself(part)}
    names = [name for name in in_a if name in shared]
    if names:
        alike = np.array_equal(_aliases([in_a[n] for n in names]), _aliases([in_b[n] for n in names]))
        assert alike, f"not shared alike among {names}: {sharing(a)} in one, {sharing(b)} in the other"


def named_tensors(tree: Any) -> dict[str, torch.Tensor]:
    """Every tensor of the tree by its key path joined by dots; one that is reached twice has two names."""
    found: dict[str, torch.Tensor] = {}
    for path, tensor in _walk(tree, (), ()):
        name = ".".join(path)
        assert name not in found, f"two tensors of this tree are both called {name!r}"
        found[name] = tensor
    return found


def strided_parts(tree: Any) -> dict[str, torch.Tensor]:
    """The plain tensors, with memory and at least one element, that the tree's tensors are made of, by name."""
    found = {}
    for name, tensor in named_tensors(tree).items():
        for suffix, part in _strided(tensor):
            if part.device.type != "meta" and part.numel():
                found[name + suffix] = part
    return found


def bits(tensor: torch.Tensor) -> NDArray[Any]:
    """The elements' bit patterns in place, nothing copied: integers as wide as an element, or two for 16 bytes."""
    item = tensor.element_size()
    width = min(item, 8)
    shape = (*tensor.shape, item // width)
    strides = (*(stride * item for stride in tensor.stride()), width)
    start = tensor.storage_offset() * item
    end = start + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) + width
    if not tensor.numel():
        return np.empty(shape, f"u{width}")
    memory = _memory(tensor.untyped_storage())
    assert end <= memory.size, f"a tensor reaches byte {end} of a storage that has {memory.size}"
    return np.ndarray(shape, f"u{width}", memory.data, start, strides)


class _Comparison:
    """One walk over two trees at once, which remembers what it has seen of both."""

    def __init__(self, strides: bool, identity: bool) -> None:
        self.strides, self.identity = strides, identity
        # By id; the first ones hold the objects, so that no later one gets the same id.
        self.compared: dict[tuple[int, int], tuple[Any, Any]] = {}
        self.partners: dict[int, tuple[Any, str]] = {}
        self.owners: dict[int, Any] = {}

    def compare(self, a: Any, b: Any, where: str) -> None:
        self.equal(type(a), type(b), where, "type")
        if isinstance(a, VALUES + NAMES):
            self.equal(a, b, where, "value")
        elif isinstance(a, float | complex):
            self.equal(_number_bits(a), _number_bits(b), where, "bits of the number")
        elif isinstance(a, np.ndarray | np.generic):
            self.arrays(a, b, where)
        elif isinstance(a, torch.UntypedStorage | torch.TypedStorage):
            self.storages(a, b, where)
        elif not self.seen(a, b, where):
            if isinstance(a, torch.Tensor):
                self.tensors(a, b, where)
            else:
                self.containers(a, b, where)

    def equal(self, a: Any, b: Any, where: str, what: str) -> None:
        assert a == b, f"{where or 'the object itself'}: {what}: {a!r} is not {b!r}"

    def seen(self, a: Any, b: Any, where: str) -> bool:
        """Whether these two were compared before; fails where one tree has one object and the other two."""
        if self.identity and not isinstance(a, tuple | frozenset):  # an interpreter may merge what cannot change
            partner, place = self.partners.setdefault(id(a), (b, where))
            assert partner is b, f"{where}: is the very object at {place!r} in one tree, and not in the other"
            assert self.owners.setdefault(id(b), a) is a, f"{where}: one object in one tree, two in the other"
        pair = (id(a), id(b))
        known = pair in self.compared
        self.compared[pair] = (a, b)
        return known

    def containers(self, a: Any, b: Any, where: str) -> None:
        if isinstance(a, set | frozenset):
            self.equal(a, b, where, "set")
        elif type(a) in (list, tuple):
            self.equal(len(a), len(b), where, "length")
            for index, (x, y) in enumerate(zip(a, b, strict=True)):
                self.compare(x, y, _join(where, index))
        elif isinstance(a, dict):
            if all(isinstance(key, str | int) for key in (*a, *b)):
                self.equal(list(a), list(b), where, "keys")
            self.compare(tuple(a), tuple(b), _join(where, "(keys)"))
            for key, x, y in zip(a, a.values(), b.values(), strict=True):
                self.compare(x, y, _join(where, key))
            self.compare(getattr(a, "default_factory", None), getattr(b, "default_factory", None), where)
            self.attributes(a, b, where)
        else:
            self.compare(_pickled(a), _pickled(b), where)

    def attributes(self, a: Any, b: Any, where: str) -> None:
        if _state(a) or _state(b):
            self.compare(_state(a), _state(b), _join(where, "(attributes)"))

    def arrays(self, a: Any, b: Any, where: str) -> None:
        self.equal((a.dtype, a.shape), (b.dtype, b.shape), where, "dtype and shape")
        if a.dtype.hasobject:
            self.compare(a.tolist(), b.tolist(), where)
        else:
            assert a.tobytes() == b.tobytes(), f"{where}: the array's values differ"

    def storages(self, a: Any, b: Any, where: str) -> None:
        if isinstance(a, torch.TypedStorage):
            self.equal(a.dtype, b.dtype, where, "dtype of the storage")
            a, b = a._untyped_storage, b._untyped_storage
        self.equal((a.nbytes(), a.device), (b.nbytes(), b.device), where, "size and device of the storage")
        if a.device.type != "meta":
            assert np.array_equal(_memory(a), _memory(b)), f"{where}: the storage's bytes differ"

    def tensors(self, a: torch.Tensor, b: torch.Tensor, where: str) -> None:
        for what in ("dtype", "layout", "device", "requires_grad", "is_nested", "is_quantized"):
            self.equal(getattr(a, what), getattr(b, what), where, what)
        if hasattr(a, "__tensor_flatten__"):  # which also says what of its attributes counts
            self.equal(_flattened(a), _flattened(b), where, "parts of the subclass")
        else:
            self.attributes(a, b, where)
        if a.is_nested and a.layout == torch.strided:
            self.compare(a._nested_tensor_size(), b._nested_tensor_size(), _join(where, "(sizes)"))
        elif not a.is_nested:  # the sizes of a jagged one are symbols of its own
            self.equal(a.shape, b.shape, where, "shape")
        if a.layout == torch.sparse_coo:
            self.equal(a.is_coalesced(), b.is_coalesced(), where, "is_coalesced")
        if a.is_quantized:
            self.compare(_quantizer(a), _quantizer(b), _join(where, "(quantizer)"))
        for (suffix, x), (_, y) in zip(_strided(a), _strided(b), strict=True):
            if x is a:
                self.strided(x, y, where)
            else:
                self.compare(x, y, where + suffix)

    def strided(self, a: torch.Tensor, b: torch.Tensor, where: str) -> None:
        self.equal((a.is_conj(), a.is_neg()), (b.is_conj(), b.is_neg()), where, "conjugate and negative bit")
        if self.strides and a.numel():
            self.equal(a.stride(), b.stride(), where, "strides")
        if a.device.type == "meta" or not a.numel():
            return
        # An expanded dimension repeats itself, however long it is.
        once = tuple(0 if x == y == 0 else slice(None) for x, y in zip(a.stride(), b.stride(), strict=True))
        differing = np.count_nonzero(bits(a)[once] != bits(b)[once])
        assert differing == 0, f"{where or 'the object itself'}: {differing} of its values differ"


def _walk(node: Any, path: tuple[str, ...], above: tuple[int, ...]) -> Iterator[tuple[tuple[str, ...], torch.Tensor]]:
    if id(node) in above:  # a tree that holds itself
        return
    above = (*above, id(node))
    if isinstance(node, torch.Tensor):
        yield path, node
    if isinstance(node, dict):
        children = list(node.items())
    elif isinstance(node, list | tuple):
        children = list(enumerate(node))
    elif isinstance(node, type):
        return
    else:
        children = list(_state(node).items())
    for key, child in children:
        yield from _walk(child, (*path, str(key)), above)


def _strided(tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors with a storage of their own that this one is made of: itself, or its parts by a suffix."""
    if hasattr(tensor, "__tensor_flatten__"):
        for name in _flattened(tensor)[0]:
            yield from ((f".{name}{rest}", part) for rest, part in _strided(getattr(tensor, name)))
    elif tensor.layout == torch.sparse_coo:
        yield from ((".indices", tensor._indices()), (".values", tensor._values()))
    elif tensor.layout in COMPRESSED_ROWS:
        yield from ((".crow", tensor.crow_indices()), (".col", tensor.col_indices()), (".values", tensor.values()))
    elif tensor.layout in COMPRESSED_COLUMNS:
        yield from ((".ccol", tensor.ccol_indices()), (".row", tensor.row_indices()), (".values", tensor.values()))
    elif tensor.is_nested:
        yield from ((f".{index}", part) for index, part in enumerate(tensor.detach().unbind()))
    else:
        yield "", tensor


def _flattened(subclass: Any) -> Any:
    """Names of the tensors that a wrapper subclass is made of, and what else it needs."""
    return subclass.__tensor_flatten__()


def _memory(storage: torch.UntypedStorage) -> NDArray[np.uint8]:
    """All bytes of a storage, in place."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).cpu().numpy()


def _quantizer(tensor: torch.Tensor) -> tuple[Any, ...]:
    scheme = tensor.qscheme()
    if scheme in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return (str(scheme), tensor.q_scale(), tensor.q_zero_point())
    zero_points = tensor.q_per_channel_zero_points()
    return (str(scheme), tensor.q_per_channel_scales(), zero_points, tensor.q_per_channel_axis())


def _components(parts: dict[str, torch.Tensor]) -> list[list[str]]:
    """Names, in the tree's order, grouped by memory that may be common: the spans from first to last byte touch."""
    order = {name: place for place, name in enumerate(parts)}
    groups: list[list[str]] = []
    reached = -1
    for (start, end), name in sorted((_span(part), name) for name, part in parts.items()):
        if start < reached:
            groups[-1].append(name)
        else:
            groups.append([name])
        reached = max(reached, end)
    return [sorted(group, key=order.__getitem__) for group in groups]


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Addresses of the first byte and behind the last one."""
    item = tensor.element_size()
    start = int(tensor.untyped_storage().data_ptr() + tensor.storage_offset() * item)
    reach = sum(int((size - 1) * stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (reach + 1) * item


def _may_overlap_itself(tensor: torch.Tensor) -> bool:
    extent = 1
    for stride, size in sorted((t, n) for n, t in zip(tensor.shape, tensor.stride(), strict=True) if n > 1):
        if stride < extent:
            return True
        extent += (size - 1) * stride
    return False


def _aliases(tensors: list[torch.Tensor]) -> NDArray[np.int64]:
    """For every byte of every element in order: the place in this list of the first one with the same address."""
    unit = math.gcd(*(number for t in tensors for number in (t.element_size(), _span(t)[0])))
    flat = []
    for tensor in tensors:
        item = tensor.element_size()
        addresses = np.array(_span(tensor)[0])
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
            steps = np.arange(size if stride else min(size, 2)) * (stride * item)  # twice says that it repeats
            addresses = np.add.outer(addresses, steps)
        flat.append(np.add.outer(addresses, np.arange(0, item, unit)).ravel())
    _, first, places = np.unique(np.concatenate(flat), return_index=True, return_inverse=True)
    return np.asarray(first[places], np.int64)


def _pickled(thing: Any) -> Any:
    """What pickle would write of it: how to make it, and its state."""
    reduced = thing.__reduce_ex__(2)
    if isinstance(reduced, str):
        return reduced
    return tuple(list(part) if isinstance(part, Iterator) else part for part in reduced)


def _number_bits(number: complex) -> bytes:
    return struct.pack("<2d", number.real, number.imag)


def _state(node: Any) -> dict[str, Any]:
    return getattr(node, "__dict__", {})


def _join(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)
