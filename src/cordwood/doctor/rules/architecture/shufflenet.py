"""Four rules after the guidelines of ShuffleNet V2: layers whose shape costs time.

* ``shufflenet-g1``: convolutions with unequal channels
* ``shufflenet-g2``: convolutions in many groups
* ``shufflenet-g3``: modules that are cut into many small operations
* ``shufflenet-g4``: elementwise operations with a large share of the time

All of them are for information: a network may have its shape for good reasons.
"""

from cordwood.common.numbers import milliseconds, percent
from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Finding, Rule
from cordwood.doctor.rules.architecture.layers import LEAST_SHARE, Convolution, Layer, heavy_layers, told

_LEAST_RATIO = 6  # bottlenecks of 1:4 are everywhere; at 1:12 half of the speed is lost


class ShuffleNetG1(Rule):
    """Tells of slow pointwise convolutions between few and many channels."""

    id = "shufflenet-g1"
    title = "unequal channels"
    measures = (
        "Pointwise convolutions of a recorded step whose channels differ by a factor of six or more, in layers that "
        "take at least 5% of the replayed time of all operations."
    )
    costs = (
        "At an equal number of multiplications, a convolution reads and writes least where it has as many channels "
        "going in as coming out (guideline 1 of ShuffleNet V2). Between few and many it is bound by memory."
    )
    wrong = (
        "Bottlenecks and expansions are unequal on purpose, and their use may be worth the time. This is information: "
        "nothing says that a network with other channels learns as well, so no gain is promised."
    )
    cure = "Try the same number of multiplications with channels that are closer to each other."

    def judge(self, evidence: Evidence) -> list[Finding]:
        found = [layer for layer in heavy_layers(evidence) if any(map(is_unequal, layer.convolutions))]
        share = sum(layer.share for layer in found)
        message = (
            f"convolutions between few and many channels take {percent(share)} of the time of operations: at the same "
            "number of multiplications, equal channels need less memory traffic"
        )
        return told(self, found, message, self.cure, _unequal_described)


def is_unequal(convolution: Convolution) -> bool:
    """Whether it goes from few to many channels, or back, position by position."""
    fewer, more = sorted((convolution.channels_in, convolution.channels_out))
    return convolution.groups == 1 and set(convolution.kernel) <= {1} and more >= _LEAST_RATIO * fewer


def _unequal_described(layer: Layer) -> str:
    return str(next(filter(is_unequal, layer.convolutions)))


_LEAST_GROUPS = 4  # fewer are no large number


class ShuffleNetG2(Rule):
    """Tells of slow convolutions in groups."""

    id = "shufflenet-g2"
    title = "convolutions in groups"
    measures = (
        "Convolutions of a recorded step in four or more groups (but not one a channel), in layers that take at least "
        "5% of the replayed time of all operations."
    )
    costs = (
        "Groups save multiplications, which invites more channels; at an equal number of multiplications, more groups "
        "read and write more memory (guideline 2 of ShuffleNet V2), and each group is a small product of its own."
    )
    wrong = (
        "Groups may be what makes a network accurate for its size. Depthwise convolutions, with a group for each "
        "channel, are another matter and are not told of. This is information; no gain is promised."
    )
    cure = "Try fewer groups with fewer channels, at the same number of multiplications."

    def judge(self, evidence: Evidence) -> list[Finding]:
        found = [layer for layer in heavy_layers(evidence) if any(map(is_grouped, layer.convolutions))]
        share = sum(layer.share for layer in found)
        message = (
            f"convolutions in groups take {percent(share)} of the time of operations: at the same number of "
            "multiplications, fewer groups need less memory traffic"
        )
        return told(self, found, message, self.cure, _grouped_described)


def is_grouped(convolution: Convolution) -> bool:
    """Whether it works in many groups of several channels."""
    return _LEAST_GROUPS <= convolution.groups < convolution.channels_in


def _grouped_described(layer: Layer) -> str:
    return str(next(filter(is_grouped, layer.convolutions)))


_LEAST_OPERATIONS = 64  # of one module in a step, forward and backward
_SMALL_MS = 0.02  # an operation this short costs as much to call as to do


class ShuffleNetG3(Rule):
    """Tells of modules whose time goes into many small operations."""

    id = "shufflenet-g3"
    title = "fragmented modules"
    measures = (
        "Modules that take at least 5% of the replayed time of all operations of a step, and run at least 64 "
        "operations in it that take less than 0.02 ms each on average."
    )
    costs = (
        "Every operation has a price of its own, however small it is: the call, the start of threads or of a kernel. "
        "Many small ones in place of few large ones use the hardware badly (guideline 3 of ShuffleNet V2)."
    )
    wrong = (
        "A loop over time steps cannot always be written otherwise. Recurrent layers of torch (`nn.LSTM`, `nn.GRU` and "
        "their like) are not told of: how they are cut is not yours to change. This is information; no gain is "
        "promised, and `python-bound` measures what the calls themselves cost."
    )
    cure = (
        "Work on stacked tensors in place of a loop over parts; use the fused form of a layer where there is one "
        "(`nn.LSTM` for a loop of cells, `scaled_dot_product_attention` for its parts); try `torch.compile`."
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        found = [layer for layer in heavy_layers(evidence) if is_fragmented(layer)]
        share = sum(layer.share for layer in found)
        message = f"modules that are cut into many small operations take {percent(share)} of the time of operations"
        return told(self, found, message, self.cure, _fragmented_described)


def is_fragmented(layer: Layer) -> bool:
    """Whether its time goes into many small operations; a recurrent layer of torch is the cure, not the fault."""
    small = layer.operations >= _LEAST_OPERATIONS and layer.ms / layer.operations < _SMALL_MS
    return small and not layer.is_recurrent


def _fragmented_described(layer: Layer) -> str:
    return f"{layer.operations:,} operations of {milliseconds(layer.ms / layer.operations)} each"


_LEAST_TOTAL = 0.20  # of the time of all operations


class ShuffleNetG4(Rule):
    """Tells of activations, additions and products that take a good part of the time."""

    id = "shufflenet-g4"
    title = "elementwise operations"
    measures = (
        "Elementwise operations (activations, additions, products, their backward passes) of a recorded step, in "
        "layers where they take at least 5% of the replayed time of all operations, if together they take at least 20%."
    )
    costs = (
        "They multiply next to nothing, but read and write whole tensors (guideline 4 of ShuffleNet V2): counts of "
        "multiplications do not show them."
    )
    wrong = (
        "Activations and shortcuts are what makes networks learn. This is information; no gain is promised. The "
        "optimizer is not counted, nor are recurrent layers of torch, whose activations cannot be changed."
    )
    cure = (
        "In-place forms (`nn.ReLU(inplace=True)`) write less; cheaper activations compute less; `torch.compile` fuses "
        "several into one pass over memory."
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        found = [layer for layer in heavy_layers(evidence) if share_of(layer) >= LEAST_SHARE and not layer.is_recurrent]
        total = sum(map(share_of, found))
        if total < _LEAST_TOTAL:
            return []
        message = f"elementwise operations take {percent(total)} of the time of operations in these layers"
        return told(self, found, message, self.cure, _share_described)


def share_of(layer: Layer) -> float:
    """What its elementwise operations take of the time of all operations of the step."""
    return layer.elementwise_ms / layer.whole_ms if layer.whole_ms else 0.0


def _share_described(layer: Layer) -> str:
    return f"{layer.elementwise:,} elementwise operations, {milliseconds(layer.elementwise_ms)}"
