"""Encoding photographs with one thread, into memory, against writing the zipped .pt into memory."""

from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.data import rivals
from benchmarks.data.photographs import Floats, load_photographs, normalise
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Contender, MismatchError, Spread, interleave, ratio
from cordwood import codecs
from cordwood.codecs import Goal

TITLE = "Encoding"
KEYS = ("encode-speed",)
FEWER = 26  # photographs: two from every source, as the zipped .pt takes tens of milliseconds each


def measure(settings: Settings) -> Outcome:
    """Every goal with a plan made beforehand, as a packer has it, and `balanced` choosing anew for every photograph."""
    photographs = load_photographs(settings.cache, min(settings.photographs, FEWER))
    floats = [normalise(pixels) for pixels in photographs.pixels]
    ways: dict[str, Callable[[Floats], bytes]] = {}
    for goal in ("balanced", "small", "fast", "raw"):
        ways[goal] = partial(encode_by, codecs.plan(floats, goal=goal))
    ways["balanced, choosing each time"] = partial(encode_by, "balanced")
    for name, encode in ways.items():
        if any(codecs.decode(encode(array)).tobytes() != array.tobytes() for array in floats):
            raise MismatchError(f"{name} does not give the photographs back bit for bit")
    ways |= {"zipped .pt": rivals.encode_zipped, "torch.save": rivals.encode_torch}
    with rivals.threads(1):
        contenders = [Contender(name, partial(encode_all, way, floats), len(floats)) for name, way in ways.items()]
        times = interleave(contenders, settings.rounds, least_seconds=settings.least_seconds)
    table = Table(
        "Encoding normalised float32 photographs, one thread, to memory",
        [("way", "text"), ("ms a photograph", "ms"), ("speed, of the zipped .pt's", "ratio")],
    )
    for name, seconds in times.items():
        table.add(name, Spread.of(seconds), ratio(times["zipped .pt"], seconds))
    table.notes.append(
        "Our encoders get a plan made beforehand, as when a data set is packed, but for the row that chooses each time."
    )
    return Outcome([table], {"encode-speed": ratio(times["zipped .pt"], times["balanced"])})


def encode_by(plan: "codecs.Plan | Goal", array: Floats) -> bytes:
    """One frame; the array comes last so that the plan can be bound."""
    return codecs.encode(array, plan)


def encode_all(encode: Callable[[Floats], bytes], floats: Sequence[Floats]) -> None:
    """One pass over all photographs."""
    for array in floats:
        encode(array)
