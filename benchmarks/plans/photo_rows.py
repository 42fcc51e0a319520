"""Photographs sorted by class: `small` against lossless WebP, and `balanced` against another version of the package."""

import io
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import cordwood
import cordwood as cw
from benchmarks.data.photographs import Pixels, load_photographs, normalise
from benchmarks.data.rivals import threads
from benchmarks.data.samples import nbytes
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, MismatchError, Spread, UnavailableError, interleave, ratio
from benchmarks.plans.orders import Case
from benchmarks.plans.packing import packed
from benchmarks.plans.revision import built
from benchmarks.plans.rounds import Turns

TITLE = "Photographs sorted by class"
KEYS = ("plans-webp-size", "plans-webp-speed", "plans-decode-before", "plans-pack-before")
BATCH = 64
MOST_ROUNDS = 7
SMALL_ENOUGH = 0.93  # of WebP's size: then less speed is asked for
TIMES_AS_FAST, TIMES_WHERE_SMALL = 5, 4


def measure(settings: Settings) -> Outcome:
    """Both tables."""
    photographs = load_photographs(settings.cache, 2 * settings.photographs).by_class()
    pixels = photographs.pixels
    with scratch(settings) as folder, threads(1):
        outcome = measure_webp(settings, pixels, folder)
        outcome.tables[0].notes += [f"Left out: {line}" for line in photographs.missing]
        try:
            outcome.absorb(measure_before(settings, pixels, folder))
        except UnavailableError as reason:
            title = "Photographs, `balanced`, of the version before"
            outcome.absorb(Outcome.unavailable(title, KEYS[2:], str(reason)))
    return outcome


def measure_webp(settings: Settings, pixels: Sequence[Pixels], folder: Path) -> Outcome:
    """uint8 photographs on one thread."""
    planes = [np.ascontiguousarray(one.transpose(2, 0, 1)) for one in pixels]
    webp = [as_webp(one) for one in pixels]
    if not np.array_equal(from_webp(webp[-1]), pixels[-1]):
        raise MismatchError("WebP does not give a photograph back")
    case = Case("photographs", planes)
    table = Table(
        f"{TITLE}, uint8, one thread: `small` and lossless WebP",
        [("way to keep them", "text"), ("bytes a photograph", "bytes"), ("of WebP", "ratio"),
         ("ms a photograph", "ms"), ("speed, of WebP's", "ratio")],
    )  # fmt: skip
    with ExitStack() as stores:
        found = {goal: stores.enter_context(packed(case, folder, goal)) for goal in ("small", "balanced")}
        sizes = {goal: nbytes(store) / len(pixels) for goal, store in found.items()}
        sizes["WebP"] = sum(map(len, webp)) / len(pixels)
        contenders = [
            Contender(goal, partial(read_all, cw.open(store, threads=1), len(pixels)), len(pixels))
            for goal, store in found.items()
        ]
        contenders.append(Contender("WebP", lambda: [from_webp(one) for one in webp] and None, len(pixels)))
        times = interleave(contenders, min(settings.rounds, MOST_ROUNDS), least_seconds=settings.least_seconds)
    for name in ("small", "balanced", "WebP"):
        speed = ratio(times["WebP"], times[name])
        table.add(name, sizes[name], sizes[name] / sizes["WebP"], Spread.of(times[name]), speed)
    table.notes.append(
        f"{len(pixels)} photographs of 3x224x224, those of one class one after the other, and whole stores of ours. "
        f"WebP as Pillow {need('PIL').__version__} writes and reads it, lossless, with the method that it has by "
        f"default. {TIMES_AS_FAST} times WebP's speed is asked for, {TIMES_WHERE_SMALL} times where ours has at most "
        f"{SMALL_ENOUGH} of its size."
    )
    size, speed = sizes["small"] / sizes["WebP"], ratio(times["WebP"], times["small"])
    asked = TIMES_WHERE_SMALL if size <= SMALL_ENOUGH else TIMES_AS_FAST
    met = Spread(speed.median / asked, speed.low / asked, speed.high / asked, speed.count)
    return Outcome([table], {"plans-webp-size": Spread.exact(size), "plans-webp-speed": met})


def as_webp(pixels: Pixels) -> bytes:
    target = io.BytesIO()
    need("PIL.Image").fromarray(pixels).save(target, "WEBP", lossless=True)
    return target.getvalue()


def from_webp(frame: bytes) -> Pixels:
    return np.asarray(need("PIL.Image").open(io.BytesIO(frame)))


def read_all(dataset: cw.Dataset, count: int) -> None:
    for at in range(0, count, BATCH):
        dataset[list(range(at, min(at + BATCH, count)))]


def measure_before(settings: Settings, pixels: Sequence[Pixels], folder: Path) -> Outcome:
    """The version at hand and the one before, each in a process of its own, in turns."""
    if settings.against is None:
        raise UnavailableError("it is built where --against names a git revision")
    before = built(settings.against, folder)
    here = Path(cordwood.__file__).parent.parent
    table = Table(
        f"{TITLE}, `balanced`, one thread: this version and {settings.against}",
        [("photographs as", "text"), ("bytes, of before", "ratio"), ("packing, ms", "ms"),
         ("packing speed, of before", "ratio"), ("reading, ms", "ms"), ("reading speed, of before", "ratio")],
    )  # fmt: skip
    worst: dict[str, Spread] = {}
    kinds: dict[str, npt.NDArray[Any]] = {
        "uint8": np.stack([one.transpose(2, 0, 1) for one in pixels]),
        "normalised float32": np.stack([normalise(one) for one in pixels]),
    }
    for name, rows in kinds.items():
        file = folder / f"{name}.npy"
        np.save(file, rows)
        times: dict[str, dict[str, list[float]]] = {"ours": {}, "before": {}}
        with ExitStack() as processes:
            both = {}
            for who, source in (("ours", here), ("before", before)):
                place = folder / f"{who}-{name}"
                place.mkdir()
                both[who] = processes.enter_context(Turns(source, file, place))
            for word in ("pack", "read"):
                for turn in range(min(settings.rounds, MOST_ROUNDS) + 1):
                    for who, process in both.items():
                        seconds = process.seconds(word) / len(rows)
                        if turn:  # the first one warms up
                            times[who].setdefault(word, []).append(seconds)
            size = both["ours"].bytes / both["before"].bytes
        packing, reading = (ratio(times["before"][word], times["ours"][word]) for word in ("pack", "read"))
        ours = [Spread.of(times["ours"][word]) for word in ("pack", "read")]
        table.add(name, size, ours[0], packing, ours[1], reading)
        for key, speed in (("plans-pack-before", packing), ("plans-decode-before", reading)):
            worst[key] = speed if key not in worst or speed.median < worst[key].median else worst[key]
    table.notes.append("Times are those of a photograph. Of both kinds the worse one is judged.")
    return Outcome([table], worst)
