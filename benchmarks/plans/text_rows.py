"""Texts of 40 to 100 bytes, each a sample of its own: the whole store against frames of Zstandard with a dictionary."""

from typing import Any

import numpy as np

from benchmarks.data.synthetic import TEXTS, boxes
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Spread
from benchmarks.plans.orders import Case
from benchmarks.plans.packing import packed_bytes

TITLE = "Small samples: texts and short rows"
KEYS = ("plans-texts",)
DICTIONARY_BYTES = 16_384
LEVEL = 3
QUICK_COUNT = 8000
SEED = 20260108


def measure(settings: Settings) -> Outcome:
    """Texts are judged; rows of numbers are there to be seen."""
    count = QUICK_COUNT if settings.quick else 40_000
    table = Table(
        f"{TITLE}: bytes a sample, of the whole store",
        [("samples", "text"), ("raw", "bytes"), ("zstd with a dictionary", "bytes"), ("balanced", "bytes"),
         ("of raw", "ratio"), ("of zstd with a dictionary", "ratio")],
    )  # fmt: skip
    ratios: list[float] = []
    with scratch(settings) as folder:
        for name, rows in small_values(count).items():
            raw = sum(map(len, map(as_bytes, rows))) / count
            zstd = sum(map(len, zstd_frames(list(map(as_bytes, rows))))) / count
            ours = packed_bytes(Case(name, rows), folder) / count
            table.add(name, raw, zstd, ours, ours / raw, ours / zstd)
            if name in TEXTS:
                ratios.append(ours / zstd)
    table.notes.append(
        f"{count:,} samples of one field each. Zstandard: level {LEVEL}, a dictionary of {DICTIONARY_BYTES:,} bytes "
        "trained on all samples, the sum of the frames alone: neither the dictionary nor an index is counted. Ours is "
        "everything that the store consists of."
    )
    return Outcome([table], {"plans-texts": Spread.exact(max(ratios))})


def small_values(count: int) -> dict[str, list[Any]]:
    """Samples by their name."""
    chance = np.random.default_rng(SEED)
    return {
        **{name: make(count, SEED) for name, make in TEXTS.items()},
        "512 int8 values": list(chance.normal(0, 24, (count, 512)).round().clip(-127, 127).astype(np.int8)),
        "boxes, [N, 4] float32": boxes(count, SEED),
    }


def as_bytes(value: Any) -> bytes:
    """What the sample is before it is stored."""
    encoded: bytes = value.encode() if isinstance(value, str) else value.tobytes()
    return encoded


def dictionary(samples: list[bytes]) -> Any:
    """Trained on all samples."""
    return need("zstandard").train_dictionary(DICTIONARY_BYTES, samples, level=LEVEL)


def zstd_frames(samples: list[bytes]) -> list[bytes]:
    """Each sample as a frame of its own."""
    zstandard = need("zstandard")
    compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=dictionary(samples))
    return [compressor.compress(sample) for sample in samples]
