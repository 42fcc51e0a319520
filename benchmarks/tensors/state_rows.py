"""A large state_dict with nothing to trim: saving beside torch.save, loading beside torch.load."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import cordwood as cw
from benchmarks.data.tensors import State, emptied, nbytes, real_weights, repeated, require_same, scratch, touched
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, Spread, interleave, nothing, ratio

TITLE = "State dictionary"
KEYS = ("pt-save-new", "pt-save-over", "pt-save-synced", "pt-load", "cord-load", "cord-load-touched", "cord-load-read")
MOST_ROUNDS = 9  # a pass moves 500 MB
SYNCED = "torch.save and os.fsync"


def measure(settings: Settings) -> Outcome:
    """A table of saving and one of loading."""
    weights, missing = real_weights(settings)
    state = repeated(weights, settings.state_bytes)
    what = f"{nbytes(state) / 1e6:,.0f} MB state_dict of {len(state)} tensors"
    with scratch(settings) as folder:
        outcome = measure_saving(settings, state, folder, what)
        outcome.absorb(measure_loading(settings, state, folder, what))
    note = "The tensors are real float32 weights, each copied, to memory of its own, until there are enough bytes."
    outcome.tables[0].notes += [note, *(f"Left out: {line}" for line in missing)]
    return outcome


def measure_saving(settings: Settings, state: State, folder: Path, what: str) -> Outcome:
    """To a new name, and over an older file, for which the file system has rules of its own."""
    torch = need("torch")
    ways: dict[str, tuple[str, Callable[[Any, Path], object], Callable[[Path], Any]]] = {
        "torch.save": ("torch.pt", torch.save, torch.load),
        SYNCED: ("synced.pt", save_and_sync, torch.load),
        "cw.save to .pt": ("ours.pt", cw.save, torch.load),
        "cw.save to .cord, fast": ("fast.cord", partial(cw.save, goal="fast"), cw.load),
    }
    table = Table(
        f"Saving a {what}",
        [("way", "text"), ("bytes", "bytes"), ("new name, seconds", "seconds"), ("of torch.save", "ratio"),
         ("over an older file, seconds", "seconds"), ("of torch.save", "ratio")],
    )  # fmt: skip
    new, over, sizes = [], [], {}
    for name, (filename, save, load) in ways.items():
        target = folder / filename.partition(".")[0]
        emptied(target)
        save(state, target / filename)
        require_same(load(target / filename), state, name)
        sizes[name] = (target / filename).stat().st_size
        run = partial(save, state, target / filename)
        new.append(Contender(name, run, before=partial(emptied, target)))
        over.append(Contender(name, run, before=os.sync))
    rounds = min(settings.rounds, MOST_ROUNDS)
    fresh, again = (interleave(contenders, rounds, least_seconds=0) for contenders in (new, over))
    for name in ways:
        table.add(
            name, sizes[name], Spread.of(fresh[name]), ratio(fresh[name], fresh["torch.save"]),
            Spread.of(again[name]), ratio(again[name], again["torch.save"]),
        )  # fmt: skip
        emptied(folder / ways[name][0].partition(".")[0])
    table.notes.append(
        "torch.save truncates an older file and writes into it. cw.save writes a new file, syncs it if it replaces an "
        "older one, and renames it, so a crash or a power loss leaves one of the two whole. torch.save and "
        "os.fsync wait for the disk, too."
    )
    ours = "cw.save to .pt"
    return Outcome(
        [table],
        {
            "pt-save-new": ratio(fresh[ours], fresh["torch.save"]),
            "pt-save-over": ratio(again[ours], again["torch.save"]),
            "pt-save-synced": ratio(again[ours], again[SYNCED]),
        },
    )


def save_and_sync(state: State, path: Path) -> None:
    """What a careful user of torch.save writes."""
    with path.open("wb") as file:
        need("torch").save(state, file)
        file.flush()
        os.fsync(file.fileno())


def measure_loading(settings: Settings, state: State, folder: Path, what: str) -> Outcome:
    """From the page cache: as it is by default, and with every byte looked at."""
    torch = need("torch")
    pt, cord, balanced = folder / "state.pt", folder / "state.cord", folder / "balanced.cord"
    torch.save(state, pt)
    cw.save(state, cord, goal="fast")
    cw.save(state, balanced)
    os.sync()
    ways: dict[str, Callable[[], Mapping[str, Any]]] = {
        "torch.load": partial(torch.load, pt),
        "torch.load, mmap=True": partial(torch.load, pt, mmap=True),
        "cw.load of the .pt": partial(cw.load, pt),
        "cw.load of .cord, fast": partial(cw.load, cord),
        "cw.load of .cord, fast, mmap=False": partial(cw.load, cord, mmap=False),
        "cw.load of .cord, balanced": partial(cw.load, balanced),
    }
    plain, looking = [], []
    for name, load in ways.items():
        require_same(load(), state, name)
        plain.append(Contender(name, load, before=nothing))
        looking.append(Contender(name, partial(load_and_touch, load), before=nothing))
    rounds = min(settings.rounds, MOST_ROUNDS)
    loaded, seen = (interleave(contenders, rounds, least_seconds=0) for contenders in (plain, looking))
    table = Table(
        f"Loading a {what} from the page cache",
        [("way", "text"), ("seconds", "seconds"), ("of torch.load", "ratio"),
         ("and every byte looked at, seconds", "seconds"), ("of torch.load", "ratio")],
    )  # fmt: skip
    for name in ways:
        table.add(
            name, Spread.of(loaded[name]), ratio(loaded[name], loaded["torch.load"]),
            Spread.of(seen[name]), ratio(seen[name], seen["torch.load"]),
        )  # fmt: skip
    table.notes.append(
        "cw.load maps the raw records of a large .cord file and decodes the others, unless told otherwise."
    )

    def of_torch(name: str, times: dict[str, list[float]]) -> Spread:
        return ratio(times[name], times["torch.load"])

    return Outcome(
        [table],
        {
            "pt-load": of_torch("cw.load of the .pt", loaded),
            "cord-load": of_torch("cw.load of .cord, fast", loaded),
            "cord-load-touched": of_torch("cw.load of .cord, fast", seen),
            "cord-load-read": of_torch("cw.load of .cord, fast, mmap=False", loaded),
        },
    )


def load_and_touch(load: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What a program does that uses all that it loads."""
    return touched(load())
