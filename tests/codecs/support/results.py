"""Digests of what the codecs make of fixed data, to be compared between processors' paths.

>>> python -m tests.codecs.support.results

prints them as JSON: whether the fast paths were in use, and a digest for every frame and every decoded array.
"""

import hashlib
import json

import numpy as np

from cordwood import codecs
from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.formula import Formula
from cordwood.codecs.plan import GOALS
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.palette import Palette
from cordwood.native import _native
from tests.codecs.support import definitions
from tests.codecs.support.definitions import Array
from tests.format.support.samples import few_floats, random_bits, smooth

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def arrays() -> dict[str, tuple[str, Array]]:
    """Name to dtype and array: every dtype, images of every kind and width, weights, normalised floats."""
    made: dict[str, tuple[str, Array]] = {}
    for dtype in DTYPES:
        made[f"noise {dtype}"] = dtype, random_bits(dtype, (3, 41, 37))
        if dtype != "bool":
            made[f"few {dtype}"] = dtype, few_floats(dtype, (3, 41, 37))
    for width in (1, 7, 16, 31, 33, 100, 224):
        made[f"image {width}"] = "uint8", smooth((3, 50, width), seed=width)
        made[f"image hwc {width}"] = "uint8", smooth((50, width, 3), seed=width)
        made[f"image 16 {width}"] = "uint16", smooth((50, width), "uint16", seed=width)
    made["large image"] = "uint8", smooth((3, 300, 400))
    pixels = smooth((3, 150, 160))
    floats = definitions.normalize(pixels, MEAN, STD)
    made["normalised"] = "float32", floats
    made["normalised half"] = "float16", floats.astype(np.float16)
    made["normalised hwc"] = "float32", np.ascontiguousarray(floats.transpose(1, 2, 0))
    weights = (np.random.default_rng(0).standard_normal(80_000) * 0.02).astype(np.float32)
    made["weights"] = "float32", weights
    made["weights bfloat16"] = "bfloat16", (weights.view(np.uint32) >> 16).astype(np.uint16)
    made["walk"] = "int64", np.cumsum(np.random.default_rng(1).integers(-50, 60, 90_000))
    return made


def digest(data: bytes | Array) -> str:
    return hashlib.sha256(data if isinstance(data, bytes) else data.tobytes()).hexdigest()


def digests() -> dict[str, str]:
    found = {}
    for name, (dtype, array) in arrays().items():
        for goal in GOALS:
            frame = codecs.encode(array, goal, dtype=dtype)
            found[f"{name}, {goal}, frame"] = digest(frame)
            found[f"{name}, {goal}, array"] = digest(codecs.decode(frame))
            if dtype == "uint8" and array.ndim == 3:
                axis = 0 if array.shape[0] == 3 else 2
                for output in ("float32", "float16", "bfloat16"):
                    normalize = codecs.Normalize(MEAN, STD, axis, output)
                    found[f"{name}, {goal}, to {output}"] = digest(codecs.decode(frame, normalize=normalize))
    for mean in (0.5, 1000.0, 1e5):  # far from zero several codes have the same value
        formula = Formula((("/", (255.0,)), ("-", (mean,)), ("/", (0.25,))))
        values = formula.values(DTYPES["float32"])
        array = values[smooth((60, 70))]
        frame = codecs.encode(
            array, codecs.Plan.single("fast", "float32", (Palette(None, 8, "formula", formula), Lz4()))
        )
        found[f"formula {mean}, frame"] = digest(frame)
        found[f"formula {mean}, array"] = digest(codecs.decode(frame))
    return found


if __name__ == "__main__":
    print(json.dumps({"fast": _native.fast_cpu(), "digests": digests()}))
