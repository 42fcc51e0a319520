"""Real weights in files: how large each way makes them."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import cordwood as cw
from benchmarks.codecs.weight_rows import zipnn_compress
from benchmarks.data.tensors import State, nbytes, raw, real_weights, require_same, scratch
from benchmarks.harness.outcome import Cell, Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Spread, UnavailableError
from cordwood import codecs
from cordwood.codecs import Goal

TITLE = "Weights in files"
KEYS = ("cord-size",)
GOALS: tuple[Goal, ...] = ("fast", "balanced", "small")


def measure(settings: Settings) -> Outcome:
    """One row for each way, all checkpoints together."""
    torch = need("torch")
    state, missing = real_weights(settings)
    table = Table(
        f"{nbytes(state) / 1e6:,.0f} MB of real float32 weights in one file",
        [("way", "text"), ("bytes", "bytes"), ("of torch.save", "ratio"), ("saved", "percent"),
         ("of the frames alone", "ratio"), ("who reads it", "text")],
    )  # fmt: skip
    frames = {goal: frame_bytes(state, goal) for goal in GOALS}
    beyond = {}
    with scratch(settings) as folder:
        torch.save(state, folder / "torch.pt")
        plain = (folder / "torch.pt").stat().st_size

        def add(name: str, size: int, over_frames: Cell, reader: str) -> None:
            table.add(name, size, size / plain, 1 - size / plain, over_frames, reader)

        add("torch.save", plain, None, "torch.load")
        for name, compress in (("cw.save to .pt", None), ("cw.save to .pt, compress=True", True)):
            size = saved(state, folder / "ours.pt", name, compress=compress)
            require_same(torch.load(folder / "ours.pt"), state, f"{name}, by torch.load")
            add(name, size, None, "torch.load")
        for goal in GOALS:
            size = saved(state, folder / "ours.cord", goal, goal=goal)
            beyond[goal] = size / frames[goal]
            add(f"cw.save to .cord, {goal}", size, beyond[goal], "cw.load")
    for name, compressed in (("ZipNN", zipnn_bytes), ("zstd, level 3", zstd_bytes)):
        try:
            add(f"{name}, each tensor alone", compressed(state), None, "no file format: the bytes alone")
        except UnavailableError as reason:
            table.notes.append(f"Left out: {name}: {reason}")
    table.notes += [f"Left out: {line}" for line in missing]
    table.notes.append(
        "The frames alone are what the codecs make of every tensor by itself with the same goal: beyond them a file "
        "has names, shapes and the archive around them."
    )
    return Outcome([table], {"cord-size": Spread.exact(max(beyond.values()))})


def saved(state: State, path: Path, what: str, **options: Any) -> int:
    """Save, load and compare; returns the file's size."""
    cw.save(state, path, **options)
    require_same(cw.load(path), state, what)
    size = path.stat().st_size
    os.sync()
    return size


def frame_bytes(state: State, goal: Goal) -> int:
    """What the codecs make of each tensor."""
    return sum(len(codecs.encode(tensor.numpy(), goal)) for tensor in state.values())


def zipnn_bytes(state: State) -> int:
    """What ZipNN makes of each tensor."""
    return sum(len(zipnn_compress(raw(tensor), "float32", 1)) for tensor in state.values())


def zstd_bytes(state: State) -> int:
    """What general compression makes of each tensor."""
    compress = partial(need("zstandard").ZstdCompressor(level=3).compress)
    return sum(len(compress(raw(tensor))) for tensor in state.values())
