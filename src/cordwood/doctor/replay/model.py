"""Runs a copy of a module again, forward and backward, to try another precision.

    replay = ModelReplay(seen)
    lower = Mode(forward=lambda: torch.autocast("cpu", torch.bfloat16))
    gain = replay.compare(Mode(), lower, seconds=5.0)
    replay.difference(Mode(), lower, tape)

The user's module, its buffers, its gradients and all generators stay as they are: only a copy works, on the arguments
of one of the run's own calls.
"""

import copy
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from cordwood.doctor.evidence.evidence import ModuleSeen
from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.evidence.places import is_users
from cordwood.doctor.evidence.tape import Op, Ref, Tape, references
from cordwood.doctor.measure.pairs import Gain, measure_pair

Context = Callable[[], AbstractContextManager[Any]]

_MEMORY_SHARE = 0.25  # of free memory that a copy may take, with its gradients
_COPIES = 2  # parameters and their gradients
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_MOST_OPS = 64  # from the output of a module to the loss


@dataclass(frozen=True)
class Mode:
    """A precision to work in: autocast is for the forward pass alone, other settings for both passes."""

    forward: Context = nullcontext
    around: Context = nullcontext


@dataclass(frozen=True)
class Difference:
    """What another precision does to the result: ``relative`` is of the loss, or of the output if there is none."""

    of: str  # "loss" or "output"
    relative: float
    before: float | None = None  # the loss
    after: float | None = None


class ModelReplay:
    """A copy of a module, and arguments for it."""

    def __init__(self, seen: ModuleSeen) -> None:
        if seen.arguments is None:
            raise Abstain("no call of the model was small enough to be kept for a replay")
        self._module = replayable_copy(seen.module, seen.arguments).train()
        self.device = next(self._module.parameters()).device
        self._arguments, self._options = seen.arguments
        self._names = _names_of(seen.module)

    def compare(self, before: Mode, after: Mode, seconds: float) -> Gain:
        """A forward and a backward pass both ways, in turns."""
        with _generators_kept(self.device):
            return measure_pair(lambda: self._timed(before), lambda: self._timed(after), seconds)

    def difference(self, before: Mode, after: Mode, tape: Tape | None) -> Difference | None:
        """How far results are apart; None if the other one is not finite, or there is nothing to compare."""
        results = [self._output(mode) for mode in (before, after)]
        losses = [_own_loss(result) for result in results]
        if None in losses and tape is not None:
            ops = _ops_to_loss(tape, self._names)
            losses = [_loss_by_tape(result, tape, ops) for result in results]
        first, second = losses
        if first is not None and second is not None:
            apart = abs(second - first) / max(abs(first), 1e-12)
            return Difference("loss", apart, first, second) if _is_finite(apart) else None
        one, other = (torch.cat([leaf.detach().double().flatten() for leaf in _floats(result)]) for result in results)
        apart = float((one - other).norm() / one.norm().clamp_min(1e-12))
        return Difference("output", apart) if _is_finite(apart) else None

    def _timed(self, mode: Mode) -> float:
        arguments, options = self._given()
        for parameter in self._module.parameters():
            parameter.grad = None
        self._wait()
        start = perf_counter()
        with torch.enable_grad(), mode.around():
            with mode.forward():
                result = self._module(*arguments, **options)
            leaves = [leaf for leaf in _floats(result) if leaf.requires_grad]
            if not leaves:
                raise Abstain("the model's output has nothing to differentiate, so no backward pass can be replayed")
            torch.autograd.backward(leaves, [torch.ones_like(leaf) for leaf in leaves])
        self._wait()
        return (perf_counter() - start) * 1e3

    def _output(self, mode: Mode) -> Any:
        """The output with the same random numbers, and buffers put back: a norm's averages change with each call."""
        buffers = [(buffer, buffer.clone()) for buffer in self._module.buffers()]
        arguments, options = self._given()
        with _generators_kept(self.device), torch.no_grad():
            torch.manual_seed(0)
            with mode.around(), mode.forward():
                result = self._module(*arguments, **options)
            for buffer, saved in buffers:
                buffer.copy_(saved)
        return result

    def _given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments anew: a module may write to them."""
        copied: tuple[tuple[Any, ...], dict[str, Any]] = tree_map(
            lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, (self._arguments, self._options)
        )
        return copied

    def _wait(self) -> None:
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)


def _floats(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def _is_finite(value: float) -> bool:
    return value == value and value not in (float("inf"), float("-inf"))


# ---- what must stay as it is -----------------------------------------------------------------------------------------


def replayable_copy(module: nn.Module, arguments: Any) -> nn.Module:
    """A copy of a module with parameters, to be called with these arguments; abstains where that would do harm."""
    if _are_of_a_transform(arguments):
        raise Abstain(
            "the model is called inside `torch.func` (vmap, grad), and outside of it cannot be called so again"
        )
    _check_hooks(module)
    _check_memory(module, next(module.parameters()).device)
    try:
        return copy.deepcopy(module)
    except Exception as error:  # whatever a module holds that cannot be copied
        raise Abstain(f"the model cannot be copied for a replay: {type(error).__name__}: {error}") from error


def _are_of_a_transform(arguments: Any) -> bool:
    """What `torch.func` hands to a model stands for a whole batch while a transform runs, and for nothing behind it."""
    functorch = getattr(torch._C, "_functorch", None)
    is_wrapped = getattr(functorch, "is_functorch_wrapped_tensor", lambda leaf: False)
    return any(is_wrapped(leaf) for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor))


def _check_hooks(module: nn.Module) -> None:
    """A hook of the user's may keep or write things, and would do so in a copy, too."""
    for each in module.modules():
        for name in _HOOKS:
            for hook in getattr(each, name, {}).values():
                code = getattr(getattr(hook, "__func__", hook), "__code__", None)
                if code is None or is_users(code):
                    raise Abstain("the model has hooks of the script's own, which a replay would call once more")


def _check_memory(module: nn.Module, device: torch.device) -> None:
    needed = _COPIES * sum(parameter.nbytes for parameter in module.parameters())
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
    elif hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:
        return
    if needed > _MEMORY_SHARE * free:
        raise Abstain("the model is too large to be copied for a replay")


@contextmanager
def _generators_kept(device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


# ---- the loss --------------------------------------------------------------------------------------------------------


def _own_loss(result: Any) -> float | None:
    """The loss that a module returns itself: alone, or as ``loss`` of what it returns."""
    if isinstance(result, dict):
        result = result.get("loss")
    elif not isinstance(result, torch.Tensor):
        result = getattr(result, "loss", None)
    is_one = isinstance(result, torch.Tensor) and result.numel() == 1 and result.is_floating_point()
    return float(result) if is_one else None


def _loss_by_tape(result: Any, tape: Tape, ops: list[Op]) -> float | None:
    """The loss of an output, by the operations that led from the module's output to the loss in the recorded step."""
    outputs = _floats(result)
    if len(outputs) != 1 or not ops:
        return None
    made = {number for op in ops for number in references(op.result)}
    wanted = {number for op in ops for number in references(op.arguments)} - made
    tensors: dict[int, torch.Tensor] = {}
    for number in wanted:
        leaf = tape.leaves.get(number)
        if leaf is not None and leaf.values is None:
            return None
        tensors[number] = outputs[0].float() if leaf is None or leaf.values is None else leaf.values
    if sum(number not in tape.leaves for number in wanted) != 1:
        return None
    try:
        with torch.no_grad():
            for op in ops:
                _run(op, tensors)
    except (RuntimeError, TypeError, ValueError, IndexError, KeyError):  # an output of another shape than recorded
        return None
    return float(tensors[tape.loss]) if tape.loss in tensors else None


def _ops_to_loss(tape: Tape, names: frozenset[str]) -> list[Op]:
    """Operations behind the model that the loss comes from; none if they are many, or random."""
    if tape.loss is None:
        return []
    needed = {tape.loss}
    found: list[Op] = []
    for op in reversed(tape.ops):
        if op.phase in ("forward", "other") and op.module not in names and needed.intersection(references(op.result)):
            found.append(op)
            needed.update(references(op.arguments))
    draws = any(torch.Tag.nondeterministic_seeded in op.func.tags for op in found)
    return [] if draws or len(found) > _MOST_OPS else found[::-1]


def _names_of(module: nn.Module) -> frozenset[str]:
    """What a tape may call the parts of a model: by their paths, with the name of its class first or without."""
    root = type(module).__name__
    paths = [name for name, _ in module.named_modules() if name]
    return frozenset([root, *paths, *(f"{root}.{path}" for path in paths)])


def _run(op: Op, tensors: dict[int, torch.Tensor]) -> None:
    arguments, options = _filled(op.arguments, tensors)
    result = op.func(*arguments, **options)
    for reference, value in zip(_flat(op.result), _flat(result), strict=True):
        if isinstance(reference, Ref):
            tensors[reference.number] = value


def _filled(structure: Any, tensors: dict[int, torch.Tensor]) -> Any:
    if isinstance(structure, Ref):
        return tensors[structure.number]
    if isinstance(structure, list | tuple):
        return type(structure)(_filled(each, tensors) for each in structure)
    if isinstance(structure, dict):
        return {name: _filled(each, tensors) for name, each in structure.items()}
    return structure


def _flat(structure: Any) -> Iterable[Any]:
    return structure if isinstance(structure, list | tuple) else [structure]
