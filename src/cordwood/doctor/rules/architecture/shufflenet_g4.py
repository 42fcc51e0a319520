"""``shufflenet-g4``: elementwise operations with a large share of the time."""

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Finding, Rule
from cordwood.doctor.rules.architecture.layers import LEAST_SHARE, Layer, heavy_layers, told
from cordwood.doctor.wording import milliseconds, percent

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
        found = [layer for layer in heavy_layers(evidence) if share_of(layer) >= LEAST_SHARE and not layer.recurrent]
        total = sum(map(share_of, found))
        if total < _LEAST_TOTAL:
            return []
        message = f"elementwise operations take {percent(total)} of the time of operations in these layers"
        return told(self, found, message, self.cure, _described)


def share_of(layer: Layer) -> float:
    """What its elementwise operations take of the time of all operations of the step."""
    return layer.elementwise_ms / layer.whole_ms if layer.whole_ms else 0.0


def _described(layer: Layer) -> str:
    return f"{layer.elementwise:,} elementwise operations, {milliseconds(layer.elementwise_ms)}"
