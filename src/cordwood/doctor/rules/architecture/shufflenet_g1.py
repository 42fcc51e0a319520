"""``shufflenet-g1``: convolutions with unequal channels."""

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Finding, Rule
from cordwood.doctor.rules.architecture.layers import Convolution, Layer, heavy_layers, told
from cordwood.doctor.wording import percent

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
        return told(self, found, message, self.cure, _described)


def is_unequal(convolution: Convolution) -> bool:
    """Whether it goes from few to many channels, or back, position by position."""
    fewer, more = sorted((convolution.channels_in, convolution.channels_out))
    return convolution.groups == 1 and set(convolution.kernel) <= {1} and more >= _LEAST_RATIO * fewer


def _described(layer: Layer) -> str:
    return str(next(filter(is_unequal, layer.convolutions)))
