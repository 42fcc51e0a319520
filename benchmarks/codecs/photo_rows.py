"""One photograph, one frame: sizes and one-thread decoding of our goals against image and tensor files."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from benchmarks.data import rivals
from benchmarks.data.photographs import Floats, Photographs, load_photographs, normalise
from benchmarks.data.rivals import Decode, over_all
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Contender, MismatchError, Spread, interleave, ratio
from cordwood import codecs

TITLE = "Photographs, one frame each"
KEYS = (
    "small-size-webp", "small-size-png", "small-size-torch", "small-speed-webp",
    "balanced-size-png", "balanced-speed-png", "balanced-speed-zip", "fast-size-uint8", "fast-speed-balanced",
)  # fmt: skip
WEBP = ("WebP, OpenCV", "WebP, Pillow")
PNG = ("PNG, OpenCV", "PNG, Pillow")
UINT8_BYTES = 3 * 224 * 224


@dataclass(frozen=True)
class Entry:
    """One way to keep the photographs: its frames, and how one is decoded."""

    name: str
    frames: list[bytes]
    decode: Decode
    note: str

    @property
    def size(self) -> float:
        """Bytes a photograph, on average."""
        return fmean(map(len, self.frames))


def measure(settings: Settings) -> Outcome:
    """Sizes, speeds, and the sizes for every source."""
    photographs = load_photographs(settings.cache, settings.photographs)
    floats = [normalise(pixels) for pixels in photographs.pixels]
    outs = [np.zeros_like(array) for array in floats]
    with rivals.threads(1):
        entries = {entry.name: entry for entry in [*our_entries(floats), *rival_entries(photographs, floats)]}
        for entry in entries.values():
            check(entry, floats, outs)
        contenders = [
            Contender(e.name, partial(over_all, e.decode, e.frames, outs), len(floats)) for e in entries.values()
        ]
        times = interleave(contenders, settings.rounds, least_seconds=settings.least_seconds)
    sizes = {name: entry.size for name, entry in entries.items()}
    tables = [entry_table(entries, times, photographs), source_table(entries, photographs)]
    return Outcome(tables, judge(sizes, times))


def our_entries(floats: Sequence[Floats]) -> list[Entry]:
    """Frames that stand alone, by one plan a goal, and frames by a plan that owns tables, where owning them helps."""
    entries = []
    for goal in ("small", "balanced", "fast"):
        plan = codecs.plan(floats, goal)
        frames = codecs.encode_many(floats, plan, threads=1)
        if any(codecs.frame_info(frame).plan_hash is not None for frame in frames):
            raise MismatchError(f"a frame of goal {goal} needs its plan; the goals are for frames that stand alone")
        entries.append(Entry(goal, frames, codecs.decode, f"`{plan}`"))
        owning = codecs.plan(floats, goal, own=True)
        frames = codecs.encode_many(floats, owning, threads=1)
        if any(codecs.frame_info(frame).plan_hash is not None for frame in frames):
            decode = partial(codecs.decode, plans=owning)
            entries.append(Entry(f"{goal}, plan's tables", frames, decode, f"`{owning}`, with the plan at hand"))
    return entries


def rival_entries(photographs: Photographs, floats: Sequence[Floats]) -> list[Entry]:
    """Image formats by both libraries that read them, and tensors in files."""
    conversion, convert = rivals.best_conversion(photographs.pixels)
    webp = [rivals.encode_webp(pixels) for pixels in photographs.pixels]
    png = [rivals.encode_png(pixels) for pixels in photographs.pixels]
    png_pillow = [rivals.encode_png_pillow(pixels) for pixels in photographs.pixels]
    by_opencv, by_pillow = rivals.image_decoder("OpenCV", convert), rivals.image_decoder("Pillow", convert)
    usual = rivals.image_decoder("OpenCV", rivals.naive)
    return [
        Entry(WEBP[0], webp, by_opencv, f"lossless, method 2; then {conversion}"),
        Entry(WEBP[1], webp, by_pillow, f"lossless, method 2; then {conversion}"),
        Entry(PNG[0], png, by_opencv, f"level 3; then {conversion}"),
        Entry(PNG[1], png, by_pillow, f"the same files; then {conversion}"),
        Entry("PNG, usual conversion", png, usual, "for information: OpenCV, then torch operations into new memory"),
        Entry("PNG by Pillow", png_pillow, by_opencv, f"for information: Pillow's level 6; then {conversion}"),
        Entry("zipped .pt", list(map(rivals.encode_zipped, floats)), rivals.decode_zipped, "zipfile, then torch.load"),
        Entry("torch.save", list(map(rivals.encode_torch, floats)), rivals.decode_torch, "torch.load from memory"),
        Entry("safetensors", list(map(rivals.encode_safetensors, floats)), rivals.decode_safetensors, "no checksum"),
        Entry("zstd on float32", list(map(rivals.encode_zstd, floats)), rivals.decode_zstd, "level 3"),
    ]


def check(entry: Entry, floats: Sequence[Floats], outs: Sequence[Floats]) -> None:
    """Every photograph must come back bit for bit, into memory that held something else."""
    for frame, array, out in zip(entry.frames, floats, outs, strict=True):
        out.fill(np.nan)
        if entry.decode(frame, out).tobytes() != array.tobytes():
            raise MismatchError(f"{entry.name} does not give the photographs back bit for bit")


def judge(sizes: dict[str, float], times: dict[str, list[float]]) -> dict[str, Spread]:
    """The goals' ratios. An image format is as fast as the faster of its readers, taken anew in each round."""
    webp = [min(pair) for pair in zip(*(times[name] for name in WEBP), strict=True)]
    png = [min(pair) for pair in zip(*(times[name] for name in PNG), strict=True)]
    return {
        "small-size-webp": Spread.exact(sizes["small"] / sizes[WEBP[0]]),
        "small-size-png": Spread.exact(sizes["small"] / sizes[PNG[0]]),
        "small-size-torch": Spread.exact(sizes["torch.save"] / sizes["small"]),
        "small-speed-webp": ratio(webp, times["small"]),
        "balanced-size-png": Spread.exact(sizes["balanced"] / sizes[PNG[0]]),
        "balanced-speed-png": ratio(png, times["balanced"]),
        "balanced-speed-zip": ratio(times["zipped .pt"], times["balanced"]),
        "fast-size-uint8": Spread.exact(sizes["fast"] / UINT8_BYTES),
        "fast-speed-balanced": ratio(times["balanced"], times["fast"]),
    }


def entry_table(entries: dict[str, Entry], times: dict[str, list[float]], photographs: Photographs) -> Table:
    """Every way with its size, its time and its size against the rivals named in the goals."""
    table = Table(
        TITLE,
        [
            ("way", "text"), ("bytes a photograph", "bytes"), ("of WebP", "ratio"), ("of PNG", "ratio"),
            ("torch.save is larger by", "ratio"), ("decode ms", "ms"), ("how", "text"),
        ],
    )  # fmt: skip
    webp, png, plain = entries[WEBP[0]].size, entries[PNG[0]].size, entries["torch.save"].size
    for entry in entries.values():
        spread = Spread.of(times[entry.name])
        table.add(entry.name, entry.size, entry.size / webp, entry.size / png, plain / entry.size, spread, entry.note)
    sources = sorted(set(photographs.sources))
    table.notes += [
        f"{len(photographs.pixels)} photographs of 3x224x224, from {len(sources)} pictures that PyPI packages ship: "
        "each whole, then square parts of it of at least 300 pixels, so that all are scaled down (shorter side to 256, "
        "bilinear, centre 224x224), then /255 and Normalize. Parts of one picture are alike: see the table by source.",
        f"The uint8 image has {UINT8_BYTES:,} bytes, the float32 one {4 * UINT8_BYTES:,}.",
        "Frames stand alone unless their row says that they use a plan's tables. A goal has such a row only where the "
        "chooser finds that frames get smaller by it.",
        *(f"Left out: {line}" for line in photographs.missing),
    ]
    return table


def source_table(entries: dict[str, Entry], photographs: Photographs) -> Table:
    """Sizes by source: a mean over all of them hides that some pictures favour one format."""
    names = ["small", "balanced", "fast", WEBP[0], PNG[0]]
    table = Table(
        "Photographs by source: bytes",
        [("source", "text"), ("photographs", "text"), ("small", "bytes"), ("balanced", "bytes"), ("fast", "bytes"),
         ("WebP", "bytes"), ("PNG", "bytes"), ("small of WebP", "ratio"), ("balanced of PNG", "ratio")],
    )  # fmt: skip
    for source in sorted(set(photographs.sources)):
        chosen = [i for i, name in enumerate(photographs.sources) if name == source]
        small, balanced, fast, webp, png = (fmean(len(entries[name].frames[i]) for i in chosen) for name in names)
        table.add(source, len(chosen), small, balanced, fast, webp, png, small / webp, balanced / png)
    return table
