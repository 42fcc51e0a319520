"""Arrays to fewer bytes and back, bit for bit; needs NumPy, not torch.

    import numpy as np
    from cordwood import codecs

    frame = codecs.encode(array)                      # or "small", "fast", "raw", or a plan
    assert np.array_equal(codecs.decode(frame), array)

    plan = codecs.plan(images[:16], "small")          # choose once, encode many
    frames = codecs.encode_many(images, plan)
    codecs.decode_into(frames, list(batch))           # one native call, all cores, no GIL

How an array becomes a frame:

1. ``dtypes``: an array -> its dtype code, and contiguous items of a dtype that NumPy knows.
2. ``choosing``: arrays and a goal -> a ``plan``. Tries chains of ``stages`` on a bounded sample, and compares sizes and
   fixed costs; ``formula`` finds the computation that gives a palette.
3. ``chain``: stages, and their ``assets`` (palettes, tables, a dictionary) -> settings for the native encoder, and the
   template of short frames. ``plan``: a menu of chains -> handles for native calls.
4. ``frame``: arrays and a plan -> frames, by one native call; and back. ``normalize`` turns uint8 images into floats
   while they are decoded, ``native_errors`` turns native error tuples into exceptions.

docs/format/frame.md describes the bytes. Imports ``common`` and ``native``.

Where to add things:

* A stage: ``stages/<name>.py`` with a subclass of ``Stage``; its settings in ``DEFAULTS`` of ``stages/base.py`` and, in
  the same order, in ``settings_read`` of ``native/python/module_plans.c``; its class in ``STAGES`` and its cost in
  ``costs`` of ``chain.py``; a candidate in ``choosing/candidates.py``; its words in ``_chain`` of ``frame.py``; the C
  code in ``native/frame`` and ``native/coding``. Tests in tests/codecs/stages/test_<name>.py, a golden file in
  tests/golden. CONTRIBUTING.md has the order of the steps.
"""

from typing import TYPE_CHECKING

from cordwood.codecs.choosing.chooser import plan
from cordwood.codecs.choosing.sample import pieces as pieces
from cordwood.codecs.dtypes import BY_CODE as BY_CODE
from cordwood.codecs.dtypes import DTYPES as DTYPES
from cordwood.codecs.dtypes import Array as Array
from cordwood.codecs.frame import NO_PLAN as NO_PLAN
from cordwood.codecs.frame import NO_PLANS as NO_PLANS
from cordwood.codecs.frame import SHORT_FRAMES as SHORT_FRAMES
from cordwood.codecs.frame import FrameInfo, decode, decode_into, encode, encode_many, frame_info
from cordwood.codecs.frame import decode_with as decode_with
from cordwood.codecs.native_errors import raise_if_refused as raise_if_refused
from cordwood.codecs.normalize import Normalize
from cordwood.codecs.plan import GOALS as GOALS
from cordwood.codecs.plan import Goal as Goal
from cordwood.codecs.plan import Plan
from cordwood.codecs.plan import fallback as fallback
from cordwood.codecs.plan import plan_set as plan_set
from cordwood.common.suggest import no_attribute

# The public names; the others are for the rest of Cordwood.
__all__ = [
    "FrameInfo",
    "Goal",
    "Normalize",
    "Plan",
    "decode",
    "decode_into",
    "encode",
    "encode_many",
    "frame_info",
    "plan",
]


if not TYPE_CHECKING:  # a type checker would take any name then

    def __getattr__(name: str) -> object:
        raise no_attribute(__name__, name, __all__)
