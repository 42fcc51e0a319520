"""What decoding costs, as fixed numbers: the chooser weighs bytes against them and never against a clock.

They stand for nanoseconds a byte of the decoded array, in round figures from profiles of this code on
one server core, with zstd's slow levels made dearer because their writers wait. Only their relation matters.
"""

from collections.abc import Sequence

from cordwood.codecs.stages.base import Stage
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd

# How many bytes (as a part of the array) a nanosecond for each byte is worth.
WEIGHT = {"small": 0.002, "balanced": 0.03, "fast": 0.8, "raw": 1.0}


def cost(stages: Sequence[Stage], code_share: float) -> float:
    """Nanoseconds a byte of the array; `code_share` is the codes' size as a part of the array's."""
    total = 0.05
    for stage in stages:
        match stage:
            case Narrow() | Palette():
                total += 0.05
            case Predict(kind="med"):
                total += 0.15 * code_share
            case Predict():
                total += 0.5 * code_share
            case Planes():
                total += 0.15
            case Entropy(saving=saving) if saving >= 0.1:
                total += 0.06 * code_share  # few planes are coded at all
            case Entropy(coder="huffman"):
                total += 0.6 * code_share
            case Entropy():
                total += 1.2 * code_share
            case Zstd(level=level):
                total += (1.2 if level < 10 else 2.0) * code_share  # the slow levels cost the writer, not the reader
            case Lz4():
                total += 0.4 * code_share
            case Raw():
                total += 0.05 * code_share
    return total
