"""Token ids, masks and labels against their plain bytes, and random data against its entropy: sizes, no times."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.data.photographs import load_photographs
from benchmarks.data.text import token_ids
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import MismatchError, Spread
from cordwood import codecs
from cordwood.codecs import Goal

TITLE = "Tokens, masks, labels and random data"
KEYS = ("tokens-size", "masks-size", "labels-size", "random-size")
GOALS: tuple[Goal, ...] = ("small", "balanced", "fast")
LEAST_TOKENS = 1 << 16

Array = npt.NDArray[Any]


def measure(settings: Settings) -> Outcome:
    """How many times smaller, by goal; the goals are judged on `small` and by the worst of what they cover."""
    table = Table(
        "Tokens, masks and labels: how many times smaller than their plain bytes",
        [
            ("what", "text"),
            ("frames", "text"),
            ("bytes", "bytes"),
            *((g, "ratio") for g in GOALS),
            ("small, how", "text"),
        ],
    )
    ids, how = token_ids(settings.cache)
    if ids.size < LEAST_TOKENS:
        raise MismatchError(f"{ids.size} tokens are fewer than the {LEAST_TOKENS} that the goal speaks of")
    tokens = [
        add_row(table, "token ids, all in one frame", [ids]),
        add_row(table, f"token ids, one frame of {LEAST_TOKENS:,}", [ids[:LEAST_TOKENS]]),
    ]
    masks = add_row(table, "blob masks, 512x512, one frame each", blob_masks())
    add_row(table, "photographs above their mean, 224x224 (for information)", threshold_masks(settings))
    labels = [
        add_row(table, f"labels, {count:,} of {classes} classes", [random_labels(classes, count)])
        for classes in (2, 10, 100)
        for count in (4096, 51200)
    ]
    table.notes.append(f"Token ids are int64: {how}. Labels are int64 in random order. Masks are bool.")
    random_table, worst = random_rows(settings)
    measured = {
        "tokens-size": Spread.exact(min(tokens)),
        "masks-size": Spread.exact(masks),
        "labels-size": Spread.exact(min(labels)),
        "random-size": Spread.exact(worst),
    }
    return Outcome([table, random_table], measured)


def add_row(table: Table, what: str, arrays: Sequence[Array]) -> float:
    """One row of the table; gives back how many times smaller `small` is."""
    raw = sum(array.nbytes for array in arrays)
    frames = {goal: encoded(arrays, goal) for goal in GOALS}
    times = {goal: raw / sum(map(len, frames[goal])) for goal in GOALS}
    table.add(what, len(arrays), raw, *times.values(), f"`{codecs.frame_info(frames['small'][0]).chain}`")
    return times["small"]


def encoded(arrays: Sequence[Array], goal: Goal) -> list[bytes]:
    """Frames that stand alone, each proved to give its array back."""
    frames = [codecs.encode(array, goal) for array in arrays]
    for frame, array in zip(frames, arrays, strict=True):
        found = codecs.decode(frame)
        if found.dtype != array.dtype or found.shape != array.shape or found.tobytes() != array.tobytes():
            raise MismatchError(f"{goal} does not give a {array.dtype} array of shape {array.shape} back")
    return frames


def blob_masks() -> list[Array]:
    """Masks as a segmentation gives them: few large shapes, more small ones; fixed seeds."""
    binary_blobs = need("skimage.data").binary_blobs
    return [
        binary_blobs(length=512, blob_size_fraction=size, volume_fraction=share, rng=seed)
        for seed, (size, share) in enumerate((s, v) for s in (0.05, 0.1, 0.2) for v in (0.2, 0.5))
    ]


def threshold_masks(settings: Settings) -> list[Array]:
    """Where a photograph is brighter than its mean: ragged edges, as a rough matte has."""
    photographs = load_photographs(settings.cache, 13)
    greys = [pixels.mean(axis=2) for pixels in photographs.pixels]
    return [grey > grey.mean() for grey in greys]


def random_labels(classes: int, count: int) -> Array:
    """Every class about equally often, in random order: the hardest case."""
    return np.random.default_rng(classes * count).integers(0, classes, count, dtype=np.int64)


def random_rows(settings: Settings) -> tuple[Table, float]:
    """Uniformly random data of each kind; the worst of (size - 64 bytes) / entropy under `small`."""
    count = 1 << (16 if settings.quick else 20)
    chance = np.random.default_rng(7)
    kinds: list[tuple[str, Array, float]] = [
        ("bytes (uint8)", chance.integers(0, 256, count, dtype=np.uint8), 8.0),
        ("float32 of random bits", chance.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32), 32.0),
    ]
    kinds += [
        (f"int64 of {values:,} values", chance.integers(0, values, count, dtype=np.int64), math.log2(values))
        for values in (2, 3, 5, 6, 10, 300, 1000, 50257)
    ]
    table = Table(
        "Uniformly random data: size less 64 bytes, of its entropy",
        [("what", "text"), ("entropy, bytes", "bytes"), *((goal, "ratio") for goal in GOALS), ("small, how", "text")],
    )
    worst = 0.0
    for what, array, bits in kinds:
        entropy = array.size * bits / 8
        frames = {goal: encoded([array], goal)[0] for goal in GOALS}
        shares = {goal: (len(frame) - 64) / entropy for goal, frame in frames.items()}
        table.add(what, entropy, *shares.values(), f"`{codecs.frame_info(frames['small']).chain}`")
        worst = max(worst, shares["small"])
    table.notes.append(f"{count:,} elements each. Judged by the worst row of `small`, the goal whose point is size.")
    return table, worst
