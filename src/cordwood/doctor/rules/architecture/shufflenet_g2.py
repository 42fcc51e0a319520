"""``shufflenet-g2``: convolutions in many groups."""

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Finding, Rule
from cordwood.doctor.rules.architecture.layers import Convolution, Layer, heavy_layers, told
from cordwood.doctor.wording import percent

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
        return told(self, found, message, self.cure, _described)


def is_grouped(convolution: Convolution) -> bool:
    """Whether it works in many groups of several channels."""
    return _LEAST_GROUPS <= convolution.groups < convolution.channels_in


def _described(layer: Layer) -> str:
    return str(next(filter(is_grouped, layer.convolutions)))
