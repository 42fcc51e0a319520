"""Sixty-four photographs in one call: raw uint8 arriving normalised, and what a second thread brings."""

import hashlib
import threading
from functools import partial

import numpy as np

from benchmarks.data import rivals
from benchmarks.data.photographs import MEAN, STD, load_photographs, normalise
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, MismatchError, Spread, interleave, ratio
from cordwood import codecs
from cordwood.codecs import Goal

TITLE = "Batches of 64"
KEYS = ("raw-batch", "batch-threads")
BATCH = 64
GOALS: tuple[Goal, ...] = ("small", "balanced", "fast", "raw")


def measure(settings: Settings) -> Outcome:
    """Both tables."""
    photographs = load_photographs(settings.cache, BATCH)
    planes = [np.ascontiguousarray(pixels.transpose(2, 0, 1)) for pixels in photographs.pixels]
    batch = np.stack([normalise(pixels) for pixels in photographs.pixels])
    raw, raw_speed = measure_raw(settings, planes, batch)
    threads, gain = measure_threads(settings, batch)
    return Outcome([raw, threads], {"raw-batch": raw_speed, "batch-threads": gain})


def measure_raw(settings: Settings, planes: list[np.ndarray], batch: np.ndarray) -> tuple[Table, Spread]:
    """uint8 frames of goal `raw` to normalised float32, against torch turning the same bytes into plain float32."""
    torch = need("torch")
    normalize = codecs.Normalize(MEAN, STD)
    frames = codecs.encode_many(planes, "raw")
    out = np.zeros_like(batch)
    # Both sides get NumPy's memory: it asks for huge pages, torch's own does not.
    pixels, floats = torch.from_numpy(np.stack(planes)), torch.from_numpy(np.zeros_like(batch))
    mean, std = torch.tensor(MEAN).view(1, 3, 1, 1), torch.tensor(STD).view(1, 3, 1, 1)

    def ours(count: int) -> None:
        codecs.decode_into(frames, list(out), threads=count, normalize=normalize)

    def copy(count: int) -> None:
        torch.set_num_threads(count)
        floats.copy_(pixels)

    def copy_and_normalise() -> None:
        torch.set_num_threads(2)
        floats.copy_(pixels).div_(255).sub_(mean).div_(std)

    for count in (1, 2):
        out.fill(np.nan)
        ours(count)
        require_same(out, batch, f"raw uint8 with {count} threads")
    with rivals.threads(2):
        copy_and_normalise()
        require_same(floats.numpy(), batch, "torch's operations in place")
        contenders = [
            Contender("ours, two threads", partial(ours, 2), BATCH),
            Contender("torch copy_, two threads", partial(copy, 2), BATCH),
            Contender("torch copy_, one thread", partial(copy, 1), BATCH),
            Contender("torch copy_ and normalise, two threads", copy_and_normalise, BATCH),
            Contender("ours, one thread", partial(ours, 1), BATCH),
        ]
        times = interleave(contenders, settings.rounds, least_seconds=settings.least_seconds)
    table = Table(
        "Raw uint8 to normalised float32, 64 photographs into memory used before",
        [("way", "text"), ("ms a photograph", "ms"), ("speed, of torch's copy_", "ratio")],
    )
    # Where other work has the second core, torch's two threads wait for each other: then one is its best.
    copying = [
        min(pair) for pair in zip(times["torch copy_, two threads"], times["torch copy_, one thread"], strict=True)
    ]
    for name, seconds in times.items():
        table.add(name, Spread.of(seconds), ratio(copying, seconds))
    table.notes.append(
        "`copy_` only converts to float32; ours also divides, subtracts and divides as Normalize does, "
        "and verifies a checksum. The rival is the faster of its rows in each round."
    )
    return table, ratio(copying, times["ours, two threads"])


def measure_threads(settings: Settings, batch: np.ndarray) -> tuple[Table, Spread]:
    """One call with one and with two threads, for every goal, beside the machine's own gain from a second thread."""
    arrays, out = list(batch), np.zeros_like(batch)
    contenders = [Contender(f"machine {count}", partial(plain_arithmetic, count), count) for count in (1, 2)]
    for goal in GOALS:
        frames = codecs.encode_many(arrays, codecs.plan(arrays, goal=goal))
        for count in (1, 2):
            decode = partial(codecs.decode_into, frames, list(out), threads=count)
            out.fill(np.nan)
            decode()
            require_same(out, batch, f"{goal} with {count} threads")
            contenders.append(Contender(f"{goal} {count}", decode, BATCH))
    times = interleave(contenders, settings.rounds, least_seconds=settings.least_seconds)
    table = Table(
        "Batch decode of normalised float32, two threads against one",
        [("goal", "text"), ("one thread, ms a photograph", "ms"), ("two threads", "ms"), ("gain", "ratio")],
    )
    for goal in GOALS:
        one, two = times[f"{goal} 1"], times[f"{goal} 2"]
        table.add(goal, Spread.of(one), Spread.of(two), ratio(one, two))
    table.add("machine's ceiling", None, None, ratio(times["machine 1"], times["machine 2"]))
    table.notes.append(
        "The ceiling is what a second thread of plain arithmetic, sharing nothing with the first, gains in the same "
        "rounds. Where it is far below two, other work had the second core, and the gains above suffered the same."
    )
    return table, ratio(times["balanced 1"], times["balanced 2"])


def plain_arithmetic(count: int) -> None:
    """Work that shares nothing and waits for no memory, on so many threads."""
    workers = [threading.Thread(target=hash_again_and_again) for _ in range(count - 1)]
    for worker in workers:
        worker.start()
    hash_again_and_again()
    for worker in workers:
        worker.join()


def hash_again_and_again() -> None:
    """Some ten milliseconds in registers, in one call that lets the interpreter's lock go."""
    hashlib.pbkdf2_hmac("sha256", b"cord", b"wood", 20_000)


def require_same(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Equal bit for bit, or the run ends."""
    if found.tobytes() != expected.tobytes():
        raise MismatchError(f"{what}: not the source bit for bit")
