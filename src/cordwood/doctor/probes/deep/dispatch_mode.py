"""A dispatch mode that records every operation of a step, below autograd, and passes it on unchanged.

    mode = Taping(watched, modules)
    with mode: ...one training step...
    mode.noted          # operations
    mode.gave_up        # why there is no tape, or ""

Nothing that it does may reach the script: what goes wrong in here ends the taping, not the step.
"""

import sys
from collections.abc import Callable
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any

import torch
from torch.autograd import _make_grads
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _pop_mode, _push_mode

from cordwood.doctor.evidence.places import is_users, user_frame
from cordwood.doctor.evidence.tape import Op, Ref, TensorMeta
from cordwood.doctor.probes.deep.module_paths import Mark
from cordwood.doctor.probes.deep.tensor_numbers import CannotFollow, TensorTable

MOST_OPS = 20_000
_VALUES = 64 << 20  # bytes of integers and booleans that are kept of a step
# Libraries whose operations depend on their arguments alone; running others again might send or write something.
_PURE = ("aten", "prims", "torchvision", "mkldnn", "quantized")
_UNSEEN = ("profiler", "prim")
_WORDS = (int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)

Line = tuple[CodeType, int] | None


class Taping(TorchDispatchMode):
    """Watches one step of one thread."""

    supports_higher_order_operators = True  # without this torch raises at one, in the middle of the user's step

    def __init__(self, phase: Callable[[], str], module: Callable[[], Mark]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table = TensorTable(_VALUES)
        self.noted: list[Op] = []
        # Of each operation: places and paths are made of them when there is time.
        self.lines: list[Line] = []
        self.marks: list[Mark] = []
        self.loss: int | None = None
        self.gave_up = ""
        self._phase = phase
        self._module = module
        self._forward: dict[int, tuple[Line, Mark]] = {}  # autograd's sequence number -> where the graph was built
        self._last_backward: tuple[Line, Mark] = (None, None)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The wrapper that torch would put around would import all of its compiler in the user's step.
        return False

    def enter(self) -> None:
        """Write down what this thread does from now on."""
        self.__enter__()  # type: ignore[no-untyped-call]

    def leave(self) -> None:
        """Take this mode out, also from below others that the step has left behind."""
        above: list[Any] = []
        while (top := _get_current_dispatch_mode()) is not self and top is not None:
            above.append(_pop_mode())
        if top is self:
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        while above:
            _push_mode(above.pop())

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.gave_up or self._phase() == "wait":
            return func(*args, **kwargs)
        op = self._before(func, args, kwargs, sys._getframe(1))
        start = perf_counter_ns()
        result = func(*args, **kwargs)
        if op is not None:
            op.nanoseconds = perf_counter_ns() - start
            self._after(op, result)
        return result

    def _before(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Op | None:
        try:
            if not isinstance(func, torch._ops.OpOverload):
                raise CannotFollow(f"{func} runs a program of its own, whose operations cannot be seen")
            if func.namespace in _UNSEEN:
                return None
            if len(self.noted) >= MOST_OPS:
                raise CannotFollow(f"a step has more than {MOST_OPS:,} operations")
            inputs: list[TensorMeta] = []
            phase, line, mark = self._whereabouts(frame)
            op = Op(func.name(), func, phase, None, "", inputs, [], ((), {}), None, 0, is_users(frame.f_code))
            op.is_opaque = func.namespace not in _PURE or _depends_on_values(func, args, kwargs)
            op.arguments = self._noting(args, op, line, mark), self._noting(kwargs, op, line, mark)
            if self.loss is None and frame.f_code is _make_grads.__code__ and inputs:
                self.loss = inputs[0].number
            self._append(op, line, mark)
            return op
        except CannotFollow as why:
            self._give_up(str(why))
        except Exception as error:
            self._give_up(f"the doctor failed: {type(error).__name__}: {error}")
        return None

    def _after(self, op: Op, result: Any) -> None:
        try:
            op.result = self._noting_result(result, op)
        except CannotFollow as why:
            self._give_up(str(why))
        except Exception as error:
            self._give_up(f"the doctor failed: {type(error).__name__}: {error}")

    def _give_up(self, why: str) -> None:
        self.gave_up = why
        self.noted, self.lines, self.marks = [], [], []
        self.table = TensorTable(0)

    def _append(self, op: Op, line: Line, mark: Mark) -> None:
        self.noted.append(op)
        self.lines.append(line)
        self.marks.append(mark)

    def _whereabouts(self, frame: FrameType) -> tuple[str, Line, Mark]:
        """Phase, line and module. A backward operation has those of the forward one that built its node."""
        found = user_frame(frame)
        line = None if found is None else (found.f_code, found.f_lineno)
        node: Any = torch._C._current_autograd_node()  # None outside of backward passes
        if node is not None:
            here = self._forward.get(node._sequence_nr(), self._last_backward)
            self._last_backward = here
            return "backward", here[0] or line, here[1]
        phase = self._phase()
        mark = self._module()
        if phase not in ("forward", "backward", "optimizer"):
            phase = "other"
        if phase != "backward" and torch.is_grad_enabled():
            self._forward.setdefault(torch._C._autograd._get_sequence_nr() - 1, (line, mark))
        return phase, line, mark

    def _noting(self, structure: Any, op: Op, line: Line, mark: Mark) -> Any:
        """The arguments with a number in place of each tensor."""
        if isinstance(structure, torch.Tensor):
            meta, base = self.table.taken(structure, len(self.noted))
            if base is not None:
                self._append(self._unseen_view(meta, base, op), line, mark)
            op.inputs.append(meta)
            return Ref(meta.number)
        if isinstance(structure, tuple):
            return tuple(self._noting(each, op, line, mark) for each in structure)
        if isinstance(structure, list):
            return [self._noting(each, op, line, mark) for each in structure]
        if isinstance(structure, dict):
            return {name: self._noting(each, op, line, mark) for name, each in structure.items()}
        if structure is None or isinstance(structure, _WORDS):
            return structure
        if not isinstance(structure, torch.Generator):  # a replay draws from its own numbers, never from the script's
            op.is_opaque = True
        return None

    def _unseen_view(self, meta: TensorMeta, base: TensorMeta, op: Op) -> Op:
        """Some C++ code makes views without telling: the tape gets them as an operation of their own."""
        arguments: tuple[tuple[Any, ...], dict[str, Any]] = (
            (Ref(base.number), meta.shape, meta.stride, meta.offset),
            {},
        )
        func = torch.ops.aten.as_strided.default
        return Op(func.name(), func, op.phase, None, "", [base], [meta], arguments, Ref(meta.number), 0)

    def _noting_result(self, structure: Any, op: Op) -> Any:
        if isinstance(structure, torch.Tensor):
            meta = self.table.made(structure, op.inputs)
            if op.is_opaque and all(meta.number != each.number for each in op.inputs):
                self.table.given(structure, meta, len(self.noted) - 1)
            op.outputs.append(meta)
            return Ref(meta.number)
        if isinstance(structure, list | tuple):
            return [self._noting_result(each, op) for each in structure]
        return None


def _depends_on_values(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether what comes out, or how much of it, hangs on values that a replay does not have."""
    name = func.overloadpacket.__name__
    if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
        return any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1])
    if name == "_to_copy":
        # Numbers computed from the data become positions in it: others than the real ones may lie outside.
        target = kwargs.get("dtype")
        return target is not None and args[0].dtype.is_floating_point and not target.is_floating_point
    return torch.Tag.dynamic_output_shape in func.tags or torch.Tag.data_dependent_output in func.tags
