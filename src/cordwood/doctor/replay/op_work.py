"""Separates the time that an operation spends on its elements from the cost of calling it.

    work = work_times(tape)         # milliseconds of each operation, its call left out

An operation on a few elements is all call. What a call costs is measured: the same operation runs on tensors with as
many axes, and two elements along each: of one there is no variance, and torch would warn of that. Only operations that
check the sizes they are given are asked so; others (a layer of an LSTM, say) would write beyond such small tensors.
"""

from statistics import median
from time import perf_counter_ns
from typing import Any

import torch

from cordwood.doctor.evidence.tape import Op, Ref, Tape, TensorMeta, written
from cordwood.doctor.replay.replay import op_times

_REPEATS = 30
_LARGE_NS = 100_000
# Operations whose work is not told by the memory they touch.
_HEAVY = ("mm", "conv", "linear", "attention", "sort", "topk", "fft", "linalg", "cdist", "cum")
_BYTES_A_MS = 4e6  # of memory: what any machine does
# Besides elementwise operations, which torch tells by a tag, and the same ones on lists of tensors.
_CHECKS_SIZES = frozenset(
    (
        *("sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "var", "std", "norm"),
        *("linalg_vector_norm", "mm", "addmm", "bmm", "baddbmm", "mv", "dot", "cat", "stack", "index", "index_select"),
        *("gather", "copy_", "fill_", "zero_", "_to_copy", "_softmax", "_log_softmax"),
    )
)


def work_times(tape: Tape) -> list[float]:
    """Milliseconds that each operation of a tape spends on its elements; abstains where a replay would."""
    costs: dict[Any, float] = {}
    plain = _timed(torch.ops.aten.mul.Tensor, (torch.ones(1), torch.ones(1)), {})
    work = []
    for op, time in zip(tape.ops, op_times(tape), strict=True):
        if is_view(op):
            work.append(0.0)
            continue
        key = (op.name, tuple((meta.dtype, len(meta.shape), meta.device) for meta in op.inputs), str(op.arguments[1]))
        if key not in costs:
            costs[key] = _cost_of_call(op, plain)
        # In the run a large operation may have had cold memory or a busy machine; of a small one's recorded time most
        # is the recording.
        recorded = op.nanoseconds / 1e6 if op.nanoseconds >= _LARGE_NS else 0.0
        work.append(max(0.0, max(time, recorded) - costs[key]))
    return work


def work_at_once(op: Op, work: float) -> float:
    """What an operation's elements would cost as a part of one large operation, of its work by itself.

    Reading and writing them is what is left for most; of a small operation's time even less than that is work.
    """
    if any(word in op.name for word in _HEAVY):
        return work
    return min(work, sum(meta.nbytes for meta in (*op.inputs, *op.outputs)) / _BYTES_A_MS)


def is_view(op: Op) -> bool:
    """Whether an operation only looks at memory in another way."""
    given = {meta.storage for meta in op.inputs}
    return bool(op.outputs) and not written(op) and all(meta.storage in given for meta in op.outputs)


def _cost_of_call(op: Op, plain: float) -> float:
    """Milliseconds of the call alone; where the operation does not run on so few elements, those of a plain one."""
    if op.is_opaque or not op.inputs or not _runs_on_any_size(op.func):
        return plain
    metas = {meta.number: meta for meta in op.inputs}
    positional, named = op.arguments
    try:
        with torch.no_grad():
            return max(plain, _timed(op.func, tuple(_small(each, metas) for each in positional), _small(named, metas)))
    except Exception:  # whatever an operation does with tensors so small: the plain cost is near enough
        return plain


def _runs_on_any_size(func: Any) -> bool:
    """Whether an operation either works on tensors of other sizes, or says no."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return False
    name = func.overloadpacket.__name__
    return torch.Tag.pointwise in func.tags or name in _CHECKS_SIZES or name.startswith("_foreach_")


def _small(structure: Any, metas: dict[int, TensorMeta]) -> Any:
    if isinstance(structure, Ref):
        meta = metas[structure.number]
        return torch.zeros((2,) * len(meta.shape), dtype=meta.dtype, device=meta.device)
    if isinstance(structure, list | tuple):
        return [_small(each, metas) for each in structure]
    if isinstance(structure, dict):
        return {name: _small(each, metas) for name, each in structure.items()}
    return structure


def _timed(function: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> float:
    times = []
    for _ in range(_REPEATS):
        start = perf_counter_ns()
        function(*positional, **named)
        times.append(perf_counter_ns() - start)
    return median(times) / 1e6
