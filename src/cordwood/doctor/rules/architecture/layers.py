"""Layers with a real share of the time, and the shapes of their convolutions, for the ShuffleNet V2 guidelines.

    for layer in heavy_layers(evidence):
        print(layer.name, layer.share, layer.convolutions, layer.elementwise_ms)

The guidelines hold at equal numbers of multiplications, and most good networks break some of them for a reason: so only
layers with a real share of the measured time are told of, and only as information.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from cordwood.common.numbers import milliseconds, percent
from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import CodeLine, Detail, Finding, Rule
from cordwood.doctor.evidence.tape import Op, Tape
from cordwood.doctor.replay.replay import op_times

LEAST_SHARE = 0.05  # of the time of all operations of a step, and of the step itself
_MOST_TOLD = 8
_CONVOLUTION = "aten::convolution"
_WEIGHT = 1  # which argument of a convolution is its weight
_TRANSPOSED, _GROUPS = 6, 8
_SECOND = re.compile(r"^(\w+)#\d+")  # the number behind the class of a model that is not the only one of it
_WRAPPER = re.compile(
    r"^(?:(?:module|_orig_mod)\.)+"
)  # what DistributedDataParallel and torch.compile put before names


@dataclass(frozen=True)
class Convolution:
    """The shape of a convolution."""

    channels_in: int
    channels_out: int
    groups: int
    kernel: tuple[int, ...]

    def __str__(self) -> str:
        size = "x".join(map(str, self.kernel))
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{size}, {self.channels_in} to {self.channels_out} channels{groups}"


@dataclass
class Layer:
    """A module, with the operations of one step that belong to it, forward and backward."""

    name: str
    share: float = 0.0  # of the time of all operations of the step
    ms: float = 0.0
    place: CodeLine | None = None
    convolutions: list[Convolution] = field(default_factory=list)
    operations: int = 0  # that compute something: views are free
    elementwise: int = 0
    elementwise_ms: float = 0.0
    whole_ms: float = 0.0  # of all operations of the step
    is_recurrent: bool = False  # one of torch's own: how it is cut into operations is not the user's to change


def heavy_layers(evidence: Evidence) -> list[Layer]:
    """Layers that take a real share of the measured time, the slowest first. Abstains without a tape."""
    tape: Tape = evidence.need("tape")
    evidence.need_seconds()
    times = op_times(tape)
    whole = sum(times)
    recurrent = _recurrent(evidence)
    layers: dict[str, Layer] = {}
    for op, ms in zip(tape.ops, times, strict=True):
        if op.phase not in ("forward", "backward") or not op.module:
            continue
        layer = layers.setdefault(op.module, Layer(op.module, whole_ms=whole, is_recurrent=recurrent(op.module)))
        layer.ms += ms
        layer.place = layer.place or op.place
        if op.name == _CONVOLUTION and (convolution := convolution_of(op)) is not None:
            layer.convolutions.append(convolution)
        if _computes(op):
            layer.operations += 1
            if torch.Tag.pointwise in op.func.tags:
                layer.elementwise += 1
                layer.elementwise_ms += ms
    step = 0.0 if evidence.steps is None or not len(evidence.steps.times) else evidence.steps.mean_ms
    for layer in layers.values():
        layer.share = layer.ms / whole if whole else 0.0
    heavy = (layer for layer in layers.values() if layer.ms >= LEAST_SHARE * max(whole, step))
    return sorted(heavy, key=lambda layer: -layer.ms)


def _recurrent(evidence: Evidence) -> Callable[[str], bool]:
    """Tells by the name that a tape has for a layer whether it is one of torch's recurrent ones."""
    own: set[str] = set()
    others: set[str] = set()
    for seen in evidence.modules:
        kind = type(seen.module).__name__
        for path, part in seen.module.named_modules():
            names = own if isinstance(part, nn.RNNBase | nn.RNNCellBase) else others
            # Where a script has several models, the class of each comes first in the names of its layers.
            names |= {path, f"{kind}.{path}"} if path else {kind}

    def is_recurrent(name: str) -> bool:
        plain = _WRAPPER.sub("", _SECOND.sub(r"\1", name))
        return plain in own and plain not in others

    return is_recurrent


def convolution_of(op: Op) -> Convolution | None:
    """The shape of a convolution; None for one that is transposed."""
    arguments: Any = op.arguments[0]
    if len(arguments) <= _GROUPS or arguments[_TRANSPOSED]:
        return None
    shape = op.inputs[_WEIGHT].shape
    groups = int(arguments[_GROUPS])
    return Convolution(shape[1] * groups, shape[0], groups, shape[2:])


def _computes(op: Op) -> bool:
    """Whether it makes or changes values: a view shares the memory of what it takes."""
    taken = {meta.storage for meta in op.inputs}
    return op.func.is_view is False and any(meta.storage not in taken or _writes(op) for meta in op.outputs)


def _writes(op: Op) -> bool:
    return bool(op.func._schema.is_mutable)


def told(rule: Rule, layers: list[Layer], message: str, fix: str, describe: Callable[[Layer], str]) -> list[Finding]:
    """One piece of information about layers that break a guideline; nothing if there are none."""
    if not layers:
        return []
    rows = tuple(
        (layer.name, milliseconds(layer.ms), percent(layer.share), describe(layer)) for layer in layers[:_MOST_TOLD]
    )
    detail = Detail("layers, by their time in a step", ("layer", "time", "share", "what it is"), rows)
    # A comment, since it is no code to copy: what shows it knows that it may break the line.
    return [Finding(rule.id, message, f"# {fix}", layers[0].place, level="info", details=(detail,))]
