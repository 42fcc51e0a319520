"""`.safetensors` of real weights: cw.load beside the library that made the format."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import cordwood as cw
from benchmarks.data.tensors import nbytes, require_same, scratch
from benchmarks.data.weights import SOURCES
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, Spread, interleave, nothing, ratio
from benchmarks.tensors.state_rows import load_and_touch

TITLE = "Safetensors"
KEYS = ("safetensors-load", "safetensors-touched")
LIBRARY, OURS = "safetensors.torch.load_file", "cw.load"


def measure(settings: Settings) -> Outcome:
    """One table: loading, and loading with every byte looked at."""
    load_file = need("safetensors.torch").load_file
    name, requirement, member = next(source for source in SOURCES if source[2].endswith(".safetensors"))
    with scratch(settings) as folder:
        path = folder / "weights.safetensors"
        path.write_bytes(settings.cache.read(requirement, member))
        state = load_file(path)
        ways: dict[str, Callable[[], Mapping[str, Any]]] = {
            LIBRARY: partial(load_file, path),
            OURS: partial(cw.load, path),
            "cw.load, mmap=False": partial(cw.load, path, mmap=False),
        }
        plain, looking = [], []
        for way, load in ways.items():
            require_same(load(), state, way)
            plain.append(Contender(way, load, before=nothing))
            looking.append(Contender(way, partial(load_and_touch, load), before=nothing))
        loaded = interleave(plain, settings.rounds, least_seconds=settings.least_seconds)
        seen = interleave(looking, settings.rounds, least_seconds=settings.least_seconds)
    table = Table(
        f"Loading {name}, {nbytes(state) / 1e6:,.0f} MB in {len(state)} tensors, from its .safetensors",
        [("way", "text"), ("ms", "ms"), ("of the library", "ratio"), ("and every byte looked at, ms", "ms"),
         ("of the library", "ratio")],
    )  # fmt: skip
    for way in ways:
        table.add(
            way, Spread.of(loaded[way]), ratio(loaded[way], loaded[LIBRARY]),
            Spread.of(seen[way]), ratio(seen[way], seen[LIBRARY]),
        )  # fmt: skip
    table.notes.append("From the page cache. The library maps the file, and so does cw.load unless told otherwise.")
    return Outcome(
        [table],
        {
            "safetensors-load": ratio(loaded[OURS], loaded[LIBRARY]),
            "safetensors-touched": ratio(seen[OURS], seen[LIBRARY]),
        },
    )
