"""Finds lines that make tensors whose memory order differs from their axes, and the operations that use them.

    for suspect in suspects(tape, op_times(tape)):
        suspect.made_at, suspect.numbers, suspect.at_stake_ms

Strides alone prove nothing: a convolution may not care, a matrix product takes transposed factors as they are. So
these are only suspects, with the time of the operations that take their tensors; a replay tells what they cost.
"""

from dataclasses import dataclass, field

import torch

from cordwood.doctor.code.layout_origin import origin_of
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.tape import Op, Tape, TensorMeta, written

_ONLY = 0.8  # of the time at stake
# Products that hand strides on to the library below; their factors may be transposed at no cost.
_PRODUCTS = frozenset(("mm", "addmm", "addmm_", "bmm", "baddbmm", "baddbmm_", "matmul", "linear"))


@dataclass
class Suspect:
    """The tensors of one line, and the operations that take them or what was computed from them."""

    made_at: CodeLine | None  # None: they were there before the step, and no line of it made them
    numbers: set[int] = field(default_factory=set)
    metas: list[TensorMeta] = field(default_factory=list)
    formats: tuple[torch.memory_format, ...] = (torch.contiguous_format,)  # to try
    takers: dict[CodeLine, float] = field(
        default_factory=dict
    )  # lines that use them -> milliseconds of those operations
    at_stake_ms: float = 0.0  # of all operations that take them: a change cannot save more
    convolved_ms: float = 0.0  # the part of it that convolutions take
    is_mixed: bool = False  # not odd in itself, but of another memory format than what it is combined with
    is_numpy: bool = False  # the memory is that of a NumPy array
    is_kept: bool = False  # lives from step to step, so it is mended once
    made_by: str = ""  # the operation, such as "aten::t"


def is_only_convolved(suspect: Suspect) -> bool:
    """Whether nearly nothing but convolutions takes its tensors: they repack what they get, in ways of their own."""
    return suspect.convolved_ms > _ONLY * suspect.at_stake_ms


def are_images(suspect: Suspect) -> bool:
    """Whether its tensors have the axes of images or of volumes."""
    return all(len(meta.shape) in (4, 5) for meta in suspect.metas)


def suspects(tape: Tape, milliseconds: list[float]) -> list[Suspect]:
    """All suspects, those with most time at stake first."""
    return _Search(tape, milliseconds).found()


def is_odd(meta: TensorMeta) -> bool:
    """Neither contiguous nor, for images, channels last."""
    return not meta.is_contiguous and not meta.is_channels_last


def is_turned(meta: TensorMeta) -> bool:
    """Channels last, and not contiguous as well."""
    return meta.is_channels_last and not meta.is_contiguous


class _Search:
    """One walk along the tape. An origin is a tensor that is odd though nothing that it was made from is."""

    def __init__(self, tape: Tape, milliseconds: list[float]) -> None:
        self._tape = tape
        self._origins: dict[int, set[int]] = {}  # odd tensor -> where its oddness comes from
        self._views: dict[int, set[int]] = {}  # tensor -> origins that it shares memory with
        self._metas: dict[int, TensorMeta] = {}
        self._maker: dict[int, int] = {}  # origin -> index of the operation that made it; leaves have none
        self._last_use: dict[int, int] = {}  # origin -> index of the last operation that takes it or a view of it
        self._stakes: dict[int, set[int]] = {}  # origin -> indices of the operations that take it
        self._mixed: set[int] = set()
        self._barred: set[int] = set()  # origins that are written to: with a copy the script would do something else
        for index, op in enumerate(tape.ops):
            self._take(index, op)
            self._make(index, op)
        self._bar_what_changes_below()
        self._milliseconds = milliseconds

    def _take(self, index: int, op: Op) -> None:
        views = _is_view(op)
        changed = written(op)
        for meta in op.inputs:
            self._metas[meta.number] = meta
            if meta.number in self._tape.leaves and meta.number not in self._origins and not meta.is_contiguous:
                self._origins[meta.number] = self._views[meta.number] = {meta.number}
            for origin in self._views.get(meta.number, ()):
                self._last_use[origin] = index
                if meta.number in changed:
                    self._barred.add(origin)
            if views or not is_odd(meta) or _takes_strides(op, meta):
                continue
            for origin in self._origins.get(meta.number, ()):
                self._stakes.setdefault(origin, set()).add(index)
        if not views and not changed:
            self._take_mixed(index, op)

    def _take_mixed(self, index: int, op: Op) -> None:
        """Two memory formats in one operation: either of them may be the one to change."""
        images = [meta for meta in op.inputs if len(meta.shape) in (4, 5) and meta.shape == op.inputs[0].shape]
        turned = [meta for meta in images if is_turned(meta)]
        straight = [meta for meta in images if meta.is_contiguous and not meta.is_channels_last]
        if not turned or not straight or op.name.startswith("aten::convolution"):
            return
        for meta in turned:
            for origin in self._origins.get(meta.number, ()):
                self._stakes.setdefault(origin, set()).add(index)
        for meta in straight:
            self._mixed.add(meta.number)
            self._views.setdefault(meta.number, {meta.number})
            self._last_use[meta.number] = index
            self._stakes.setdefault(meta.number, set()).add(index)

    def _make(self, index: int, op: Op) -> None:
        views = _is_view(op)
        old = {meta.number for meta in op.inputs}
        for meta in op.outputs:
            if meta.number in old:
                continue
            self._metas[meta.number] = meta
            self._maker[meta.number] = index
            if views:
                shared = {origin for each in op.inputs for origin in self._views.get(each.number, ())}
                self._views[meta.number] = shared
            if meta.is_contiguous:
                continue
            inherited = {
                origin
                for each in op.inputs
                if is_odd(each) == is_odd(meta)
                for origin in self._origins.get(each.number, ())
            }
            # A view may be odd for reasons of its own, on top of those that it inherits.
            if views or (is_odd(meta) and not inherited):
                inherited.add(meta.number)
                self._views.setdefault(meta.number, set()).add(meta.number)
            self._origins[meta.number] = inherited

    def _bar_what_changes_below(self) -> None:
        """A view shows what is written to its memory later; a copy would not."""
        writes: dict[int, list[int]] = {}
        for index, op in enumerate(self._tape.ops):
            for number in written(op):
                writes.setdefault(self._metas[number].storage, []).append(index)
        for origin in self._stakes:
            leaf = self._tape.leaves.get(origin)
            start = self._maker.get(origin, -1)
            end = len(self._tape.ops) if leaf is not None and leaf.is_kept else self._last_use.get(origin, start)
            if any(start < index < end for index in writes.get(self._metas[origin].storage, ())):
                self._barred.add(origin)

    def found(self) -> list[Suspect]:
        lines: dict[tuple[CodeLine | None, bool, bool, CodeLine | None], Suspect] = {}
        indices: dict[int, set[int]] = {}
        for origin, stakes in self._stakes.items():
            if origin in self._barred or not self._can_be_mended(origin, stakes) or self._is_autograds(origin, stakes):
                continue
            leaf = self._tape.leaves.get(origin)
            maker = self._maker.get(origin)
            op = None if leaf is not None or maker is None else self._tape.ops[maker]
            place = leaf.place if leaf is not None else op.place if op is not None else None
            mixed = origin in self._mixed
            kept = leaf is not None and leaf.is_kept
            # Tensors that no line of the step made are told apart by the line that takes them first.
            taker = self._tape.ops[min(stakes)].place if place is None else None
            suspect = lines.setdefault((place, mixed, kept, taker), Suspect(place, is_mixed=mixed, is_kept=kept))
            suspect.numbers.add(origin)
            suspect.metas.append(self._metas[origin])
            suspect.is_numpy = suspect.is_numpy or (leaf is not None and leaf.is_numpy)
            suspect.made_by = op.name if op is not None else ""
            indices.setdefault(id(suspect), set()).update(stakes)
        for suspect in lines.values():
            self._weigh(suspect, indices[id(suspect)])
        return sorted(lines.values(), key=lambda each: -each.at_stake_ms)

    def _weigh(self, suspect: Suspect, indices: set[int]) -> None:
        for index in sorted(indices):
            op, spent = self._tape.ops[index], self._milliseconds[index]
            suspect.at_stake_ms += spent
            if op.name.startswith("aten::convolution"):
                suspect.convolved_ms += spent
            if op.place is not None:
                suspect.takers[op.place] = suspect.takers.get(op.place, 0.0) + spent
        if suspect.made_at is None and suspect.takers:
            # The heaviest line is the one that is told of; the others of this suspect use the same tensors.
            origin = origin_of(max(suspect.takers, key=lambda place: suspect.takers[place]))
            if origin is not None:
                suspect.made_at, suspect.is_numpy = origin
        if suspect.is_mixed:
            suspect.formats = (channels_last_of(suspect.metas[0]),)
        elif are_images(suspect) and len({len(meta.shape) for meta in suspect.metas}) == 1:
            suspect.formats = (torch.contiguous_format, channels_last_of(suspect.metas[0]))

    def _is_autograds(self, origin: int, stakes: set[int]) -> bool:
        """Whether a tensor that is channels last, which is no fault, meets another format in the backward pass alone:
        the formats of gradients are the library's own choice, and what they cost differs from run to run."""
        return not is_odd(self._metas[origin]) and all(self._tape.ops[index].phase == "backward" for index in stakes)

    def _can_be_mended(self, origin: int, stakes: set[int]) -> bool:
        """Whether the user's code has the tensor in its hands: a copy cannot be put into the middle of a library."""
        if origin in self._tape.leaves:
            return True
        op = self._tape.ops[self._maker[origin]]
        if op.phase not in ("forward", "other") or op.place is None:
            return False
        return op.is_direct or any(self._tape.ops[index].place != op.place for index in stakes)


def channels_last_of(meta: TensorMeta) -> torch.memory_format:
    """The memory format of images, or of volumes."""
    return torch.channels_last if len(meta.shape) == 4 else torch.channels_last_3d


def _is_view(op: Op) -> bool:
    """Whether an operation only looks at memory in another way."""
    if not op.outputs or written(op):
        return False
    storages = {meta.storage for meta in op.inputs}
    return all(meta.storage in storages for meta in op.outputs)


def _takes_strides(op: Op, meta: TensorMeta) -> bool:
    """Whether this is a matrix product that reads the factor as it lies, rows or columns first."""
    if op.name.removeprefix("aten::").partition(".")[0] not in _PRODUCTS or len(meta.shape) < 2:
        return False
    (rows, columns), (down, along) = meta.shape[-2:], meta.stride[-2:]
    return (along == 1 and down >= max(1, columns)) or (down == 1 and along >= max(1, rows))
