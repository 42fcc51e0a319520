"""Arrays to fewer bytes and back, bit for bit; needs NumPy, not torch.

    import numpy as np
    from cordwood import codecs

    frame = codecs.encode(array)                      # or "small", "fast", "raw", or a plan
    assert np.array_equal(codecs.decode(frame), array)

    plan = codecs.plan(images[:16], "small")          # choose once, encode many
    frames = codecs.encode_many(images, plan)
    codecs.decode_into(frames, list(batch))           # one native call, all cores, no GIL

One file a stage: narrow, palette (with formula), predict, planes, entropy, zstd, lz4, raw. ``plan`` chains them,
``chooser`` picks the chain, ``frame`` runs it. The bytes are described in docs/format/frame.md.
"""

from typing import TYPE_CHECKING

from cordwood.codecs.chooser import plan
from cordwood.codecs.frame import FrameInfo, decode, decode_into, encode, encode_many, frame_info
from cordwood.codecs.normalize import Normalize
from cordwood.codecs.plan import Plan
from cordwood.common.suggest import no_attribute

__all__ = ["FrameInfo", "Normalize", "Plan", "decode", "decode_into", "encode", "encode_many", "frame_info", "plan"]


if not TYPE_CHECKING:  # a type checker would take any name then

    def __getattr__(name: str) -> object:
        raise no_attribute(__name__, name, __all__)
