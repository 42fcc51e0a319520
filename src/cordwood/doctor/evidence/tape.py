"""The operations of one training step as a straight-line program: names, tensors, and the lines they belong to.

    for op in tape.ops:
        print(op.name, op.phase, op.place, op.module, [meta.shape for meta in op.inputs])

Tensors are not kept; a tape knows them by number, with their shapes, strides and storages, so that the same program
can be run again (`replay`) as it was, or with another layout. A tensor that the tape uses but does not make is a leaf:
of that a handful of values is kept, and all of them where they are integers that say where to look.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from cordwood.doctor.evidence.findings import CodeLine


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """A tensor of a step: ``number`` tells it from all others, ``storage`` is the same for all views of one memory."""

    number: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    nbytes: int
    storage: int
    offset: int

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in memory in the order of the axes."""
        return self._dense(range(len(self.shape) - 1, -1, -1))

    @property
    def is_channels_last(self) -> bool:
        """Whether four or five axes lie in memory with the channels as the innermost."""
        axes = len(self.shape)
        return axes in (4, 5) and self._dense([1, *range(axes - 1, 1, -1), 0])

    def _dense(self, inner_to_outer: Iterator[int] | range | list[int]) -> bool:
        if 0 in self.shape:
            return True
        expected = 1
        for axis in inner_to_outer:
            if self.shape[axis] != 1:
                if self.stride[axis] != expected:
                    return False
                expected *= self.shape[axis]
        return True


@dataclass(frozen=True, slots=True)
class Ref:
    """Stands for a tensor in the arguments or the result of an operation."""

    number: int


@dataclass(slots=True)
class Op:
    """One operation below autograd, such as ``aten::add.Tensor``."""

    name: str
    func: Any  # the torch.OpOverload itself
    phase: str  # "forward", "backward", "optimizer" or "other"
    place: CodeLine | None  # of a backward operation: the line of the forward one that it belongs to
    module: str  # the path of the innermost module, "" outside of all
    inputs: list[TensorMeta]
    outputs: list[TensorMeta]
    arguments: tuple[tuple[Any, ...], dict[str, Any]]  # with a Ref for every tensor
    result: Any  # the same for what it returned; None where that is no tensor
    nanoseconds: int  # inside the operation, on the step that was watched
    is_direct: bool = False  # called by the user's own line, not by library code below it
    is_opaque: bool = False  # cannot be run again: what it made is a leaf, and its recorded time counts


@dataclass(slots=True)
class TapeLeaf:
    """A tensor that was there before an operation of the step used it."""

    meta: TensorMeta
    values: torch.Tensor | None = None  # all of them: integers and booleans, while they are small
    sample: torch.Tensor | None = None  # some of them: to make others like them
    is_kept: bool = False  # lives from step to step: the same memory was there in the step watched before
    is_numpy: bool = False  # shares memory with a NumPy array
    place: CodeLine | None = None  # where it was made, if that was seen
    first_use: int = 0  # index of the first operation that takes it


@dataclass
class Tape:
    """The operations of a step. ``op_times`` in `cordwood.doctor.replay.replay` tells what each takes unwatched."""

    ops: list[Op]
    step: int
    leaves: dict[int, TapeLeaf]
    loss: int | None = None  # the number of the tensor that backward was called on
    step_ms: float = 0.0  # as it was watched, so slower than others
    has_constant_shapes: bool = True  # the step watched before did the same on tensors of the same shapes
    earlier_places: frozenset[CodeLine] | None = None  # lines of the step watched before; None if there was none
    classes: dict[str, str] = field(default_factory=dict)  # of modules, by their paths
    op_ms: list[float] | None = field(default=None, repr=False)  # filled by `op_times`: replayed once for all who ask

    @property
    def recorded_ms(self) -> float:
        """The time inside all operations, as recorded."""
        return sum(op.nanoseconds for op in self.ops) / 1e6

    def signature(self) -> tuple[Any, ...]:
        """What two steps have in common that do the same work."""
        return tuple((op.name, tuple(meta.shape for meta in op.inputs)) for op in self.ops)


def references(structure: Any) -> Iterator[int]:
    """The numbers of all tensors in the arguments or in the result of an operation."""
    if isinstance(structure, Ref):
        yield structure.number
    elif isinstance(structure, list | tuple):
        for each in structure:
            yield from references(each)
    elif isinstance(structure, dict):
        for each in structure.values():
            yield from references(each)


def written(op: Op) -> set[int]:
    """The numbers of the tensors that an operation changes in place."""
    if not op.func._schema.is_mutable:
        return set()
    positional, named = op.arguments
    values = {argument.name: value for argument, value in zip(op.func._schema.arguments, positional, strict=False)}
    values.update(named)
    return {
        number
        for argument in op.func._schema.arguments
        if argument.is_write
        for number in references(values.get(argument.name))
    }
