"""Lays out a storage anew: keeps the bytes that its views reach, drops the rest, preserves sharing.

    batch = 256 * 3 * 224 * 224 * 4
    image = View(offset=602_112, itemsize=4, shape=(3, 224, 224), strides=(200_704, 896, 4))  # batch[1]
    layout = lay_out([image], batch)
    layout.nbytes  # 602_112
    layout.placed  # (Placed(offset=0, strides=(200_704, 896, 4)),)
    for group in layout.groups:
        fill(group, old[group.source : group.source + group.span], new[group.offset : group.offset + group.nbytes])

One storage in, one storage out. Views that share bytes, directly or through others, form a group and move together; a
group is closed up where its views have a common structure, else its hull is kept with the unreachable bytes zeroed.
Everything is counted in bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import NamedTuple

from cordwood.tensors.layout.copies import Bytes, Copy, copy_bytes, copy_elements, copy_in_place, joined
from cordwood.tensors.layout.overlap import MOST_DIMS, Reach, connected, reach_of
from cordwood.tensors.layout.restride import Box, close_up, round_up

__all__ = ["Copy", "Placed", "StorageLayout", "View", "ViewGroup", "fill", "in_one_piece", "lay_out"]


class View(NamedTuple):
    """What one tensor sees of a storage. ``is_fixed``: its strides may not change, its offset may."""

    offset: int
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_fixed: bool = False


class Placed(NamedTuple):
    """Where a view finds its elements in the new storage."""

    offset: int
    strides: tuple[int, ...]


class ViewGroup(NamedTuple):
    """Views that share bytes, and how their part of the new storage is filled from the old.

    It takes ``nbytes`` from ``offset`` of the new storage and stems from ``span`` bytes from ``source`` of the old.
    ``is_verbatim``: the bytes are kept just as they are, and there are no copies.
    """

    offset: int
    nbytes: int
    source: int
    span: int
    views: tuple[int, ...]
    copies: tuple[Copy, ...]
    is_verbatim: bool


class StorageLayout(NamedTuple):
    """The new storage: its size, its groups in the order of their places, and each view's place in it."""

    nbytes: int
    groups: tuple[ViewGroup, ...]
    placed: tuple[Placed, ...]


def lay_out(views: Sequence[View], nbytes: int, *, whole: bool = False) -> StorageLayout:
    """How a storage of ``nbytes`` with these views is kept. See the module for an example.

    ``whole`` keeps every byte in its place. The result is never larger than the storage, rounded up to the largest
    itemsize; only where views lie at offsets that are no multiples of their itemsize can aligning them cost more.
    """
    if len(views) == 1:
        return _of_one_view(views[0], nbytes, whole)
    layout = None if whole else _of_pieces(views, nbytes)
    return layout or _of_views(views, nbytes, whole)


@lru_cache(maxsize=1024)  # large checkpoints have the same few shapes again and again
def _of_one_view(view: View, nbytes: int, whole: bool) -> StorageLayout:
    return _of_one_piece(view, nbytes, whole) or _of_views([view], nbytes, whole)


def _of_views(views: Sequence[View], nbytes: int, whole: bool) -> StorageLayout:
    reaches = {number: reach for number, view in enumerate(views) if (reach := _reach(number, view, nbytes))}
    if whole:
        return _whole(views, reaches, nbytes)
    placed = [Placed(0, view.strides) for view in views]
    groups: list[ViewGroup] = []
    cursor = 0
    for neighbours in _neighbourhoods(views, reaches):
        for draft in _drafts(views, reaches, neighbours, cursor):
            offset = round_up(cursor, draft.align)
            groups.append(draft.group._replace(offset=offset))
            for number, place in zip(draft.group.views, draft.places, strict=True):
                placed[number] = Placed(offset + place.offset, place.strides)
            cursor = offset + draft.group.nbytes
    return StorageLayout(round_up(cursor, _alignment(views)), tuple(groups), tuple(placed))


def _of_one_piece(view: View, nbytes: int, whole: bool) -> StorageLayout | None:
    """The layout of a storage whose only view sees its bytes one element after the other; None if it does not."""
    size = in_one_piece(view)
    if not size or not 0 <= view.offset <= nbytes - size:
        return None
    if size != nbytes and (whole or view.offset % view.itemsize):
        return None
    return StorageLayout(size, (ViewGroup(0, size, view.offset, size, (0,), (), True),), (Placed(0, view.strides),))


def _of_pieces(views: Sequence[View], nbytes: int) -> StorageLayout | None:
    """The same for many views of one itemsize, as the slices of a batch are: each group is a stretch without a gap."""
    align = views[0].itemsize if views else 0
    sizes = []
    for view in views:
        size = in_one_piece(view) if view.itemsize == align and not view.offset % align else 0
        if not size or not 0 <= view.offset <= nbytes - size:
            return None
        sizes.append(size)
    placed = [Placed(view.offset, view.strides) for view in views]
    groups: list[ViewGroup] = []
    members: list[int] = []
    start = end = cursor = 0

    def close() -> None:
        if members:
            groups.append(ViewGroup(cursor, end - start, start, end - start, tuple(sorted(members)), (), True))

    for number in sorted(range(len(views)), key=lambda number: views[number].offset):
        offset = views[number].offset
        if offset >= end:
            close()
            cursor, start, members = cursor + end - start, offset, []
        end = max(end, offset + sizes[number])
        members.append(number)
        placed[number] = Placed(cursor + offset - start, views[number].strides)
    close()
    return StorageLayout(cursor + end - start, tuple(groups), tuple(placed))


def fill(group: ViewGroup, source: Bytes, out: Bytes) -> None:
    """Writes the group's part of the new storage; what no view reaches becomes zero.

    ``source`` is the old storage's bytes from ``group.source``, ``group.span`` of them; ``out`` has ``group.nbytes``.
    """
    if len(source) != group.span or len(out) != group.nbytes:
        raise ValueError(
            f"the group takes {group.span} bytes to fill {group.nbytes}, but was given {len(source)} to fill {len(out)}"
        )
    if group.is_verbatim:
        out[:] = source
        return
    if not (len(group.copies) == 1 and group.copies[0].fills(group.nbytes)):
        out[:] = 0
    for copy in group.copies:
        copy_bytes(copy, source, out)


def in_one_piece(view: View) -> int:
    """The bytes of a view that sees them one element after the other, as most views of a checkpoint do; else 0."""
    dense = view.itemsize
    for count, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if count != 1:
            if stride != dense or count < 1:
                return 0
            dense *= count
    return dense


def _reach(number: int, view: View, nbytes: int) -> Reach | None:
    """What the view reaches, if it is one that can be."""
    if len(view.shape) != len(view.strides) or view.itemsize < 1 or min(view.shape, default=0) < 0:
        raise ValueError(f"view {number} is no view: {view}")
    reach = reach_of(view.offset, view.itemsize, view.shape, view.strides)
    if reach is None:
        return None
    if any(stride < 0 or stride % view.itemsize for stride in view.strides):
        raise ValueError(f"view {number} has strides {view.strides}, which are no multiples of its itemsize: {view}")
    if view.offset < 0 or reach.end > nbytes:
        raise ValueError(f"view {number} reaches from {view.offset} to {reach.end}, but the storage has {nbytes} bytes")
    return reach


def _whole(views: Sequence[View], reaches: dict[int, Reach], nbytes: int) -> StorageLayout:
    for number in reaches:
        if views[number].offset % views[number].itemsize:
            raise ValueError(_misaligned(views, [number]))
    placed = tuple(Placed(view.offset, view.strides) for view in views)
    groups = (ViewGroup(0, nbytes, 0, nbytes, tuple(reaches), (), True),) if nbytes else ()
    return StorageLayout(nbytes, groups, placed)


def _alignment(views: Iterable[View]) -> int:
    return lcm(*{view.itemsize for view in views})


@dataclass(slots=True)
class _Neighbourhood:
    """Views whose hulls, begun at a multiple of their largest itemsize, form one interval without a break."""

    start: int
    end: int
    align: int
    members: list[int]

    @property
    def base(self) -> int:
        return self.start // self.align * self.align


def _neighbourhoods(views: Sequence[View], reaches: dict[int, Reach]) -> list[_Neighbourhood]:
    """In the order of their places. What one of them needs, alignment included, fits where it was."""
    found: list[_Neighbourhood] = []
    for number in sorted(reaches, key=lambda number: reaches[number].offset):
        reach = reaches[number]
        new = _Neighbourhood(reach.offset, reach.end, views[number].itemsize, [number])
        while found and found[-1].end > new.base:
            old = found.pop()
            old.members += new.members
            new = _Neighbourhood(old.start, max(old.end, new.end), lcm(old.align, new.align), old.members)
        found.append(new)
    return found


@dataclass(frozen=True, slots=True)
class _Draft:
    """A group before it has a place; the views' places count from its start."""

    group: ViewGroup
    align: int
    is_dense: bool
    places: tuple[Placed, ...]


def _drafts(views: Sequence[View], reaches: dict[int, Reach], neighbours: _Neighbourhood, cursor: int) -> list[_Draft]:
    numbers = neighbours.members
    drafts = []
    for cluster in connected([reaches[number] for number in numbers]):
        members = [numbers[member] for member in cluster.members]
        base = _base(views, members)
        if base is None:
            raise ValueError(_misaligned(views, members))
        drafts.append(_draft(views, reaches, members, base, cluster.is_dense))
    end = cursor
    for draft in drafts:
        end = round_up(end, draft.align) + draft.group.nbytes
    base = _base(views, numbers)
    if base is None or end <= round_up(cursor, neighbours.align) + neighbours.end - base:
        return drafts
    # Groups that lie between each other's bytes and cannot be closed up, or alignment, cost more than what is there.
    dense = all(draft.is_dense for draft in drafts) and (
        sum(draft.group.span for draft in drafts) == neighbours.end - neighbours.start
    )
    return [_draft(views, reaches, numbers, base, dense)]


def _base(views: Sequence[View], members: list[int]) -> int | None:
    """Where a hull is cut off so that each view's offset is a multiple of its itemsize; None if there is no such."""
    largest = max(members, key=lambda number: views[number].itemsize)
    align = _alignment(views[number] for number in members)
    start = min(views[number].offset for number in members)
    base = start - (start - views[largest].offset) % align
    fits = all((views[number].offset - base) % views[number].itemsize == 0 for number in members)
    return base if fits else None


def _misaligned(views: Sequence[View], members: list[int]) -> str:
    seen = ", ".join(f"{views[number].offset} (itemsize {views[number].itemsize})" for number in members[:4])
    return f"views share bytes at offsets that cannot all be multiples of their itemsizes: {seen}; clone one of them"


def _draft(views: Sequence[View], reaches: dict[int, Reach], members: list[int], base: int, dense: bool) -> _Draft:
    members = sorted(members)
    start = min(reaches[number].offset for number in members)
    end = max(reaches[number].end for number in members)
    lead, span = start - base, end - start
    align = _alignment(views[number] for number in members)

    def draft(nbytes: int, places: Iterable[Placed], copies: tuple[Copy, ...], verbatim: bool) -> _Draft:
        group = ViewGroup(0, nbytes, start, span, tuple(members), copies, verbatim)
        return _Draft(group, align, dense, tuple(places))

    in_place = [Placed(views[number].offset - base, views[number].strides) for number in members]
    if dense:
        moved = () if lead == 0 else (Copy(0, lead, (), (), (), span),)
        return draft(lead + span, in_place, moved, lead == 0)
    if not any(reaches[number].is_rough for number in members):
        boxes, nbytes = close_up([_box(views[number], base) for number in members], align)
        pairs = [(views[number], _place(views[number], box)) for number, box in zip(members, boxes, strict=True)]
        copies = joined(
            copy_elements(view.offset - start, place.offset, view.itemsize, view.shape, view.strides, place.strides)
            for view, place in pairs
        )
        if all(_fits(view, place) for view, place in pairs) and all(len(copy.shape) <= MOST_DIMS for copy in copies):
            return draft(nbytes, (place for _, place in pairs), copies, False)
    copies = joined(copy_in_place(reaches[number], start, lead) for number in members)
    return draft(lead + span, in_place, copies, False)


def _fits(view: View, place: Placed) -> bool:
    """Whether the view can be made there: torch counts offsets and strides in elements."""
    aligned = not any(number % view.itemsize for number in (place.offset, *place.strides))
    return aligned and (not view.is_fixed or place.strides == view.strides)


def _moves(count: int, stride: int) -> bool:
    return count > 1 and stride > 0


def _box(view: View, base: int) -> Box:
    dims = tuple(dim for dim in zip(view.shape, view.strides, strict=True) if _moves(*dim))
    return Box(view.offset - base, dims, view.itemsize)


def _place(view: View, box: Box) -> Placed:
    """The box's strides on all of the view's dimensions.

    A dimension of size 1 has no stride of its own: it keeps its rank among the others, since torch tells the memory
    format of ``(n, 1, h, w)`` from it.
    """
    old = [(stride, count) for count, stride in zip(view.shape, view.strides, strict=True) if _moves(count, stride)]
    new = [stride for _, stride in box.dims]
    if new == [stride for stride, _ in old]:
        return Placed(box.offset, view.strides)
    moved = iter(new)
    strides = []
    for count, stride in zip(view.shape, view.strides, strict=True):
        if _moves(count, stride):
            strides.append(next(moved))
        elif stride == 0:
            strides.append(0)
        else:
            inner = [after * n for (before, n), after in zip(old, new, strict=True) if before < stride]
            strides.append(max(inner, default=view.itemsize))
    return Placed(box.offset, tuple(strides))
