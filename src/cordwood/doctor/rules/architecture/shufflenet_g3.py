"""``shufflenet-g3``: modules that are cut into many small operations."""

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Finding, Rule
from cordwood.doctor.rules.architecture.layers import Layer, heavy_layers, told
from cordwood.doctor.wording import milliseconds, percent

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
        return told(self, found, message, self.cure, _described)


def is_fragmented(layer: Layer) -> bool:
    """Whether its time goes into many small operations; a recurrent layer of torch is the cure, not the fault."""
    small = layer.operations >= _LEAST_OPERATIONS and layer.ms / layer.operations < _SMALL_MS
    return small and not layer.recurrent


def _described(layer: Layer) -> str:
    return f"{layer.operations:,} operations of {milliseconds(layer.ms / layer.operations)} each"
