"""Each sample of a batch to a file of its own: `torch.save(batch[i])`, its cure `.clone()`, and ours."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cordwood as cw
from benchmarks.data.photographs import load_photographs, normalise
from benchmarks.data.tensors import emptied, require_same, scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, MismatchError, Spread, interleave, ratio

TITLE = "Slices of a batch"
KEYS = ("slices-size", "slices-time")
MOST_ROUNDS = 9  # a pass writes 154 MB and waits for the disk


def measure(settings: Settings) -> Outcome:
    """One table: bytes and seconds of the whole batch."""
    torch = need("torch")
    pixels = load_photographs(settings.cache, settings.slices).pixels
    batch = torch.stack([torch.from_numpy(normalise(one)) for one in pixels])
    ways: dict[str, tuple[str, Callable[[Any, Path], object], Callable[[Path], Any]]] = {
        "torch.save of clones": (".pt", lambda one, path: torch.save(one.clone(), path), torch.load),
        "cw.save to .pt": (".pt", cw.save, torch.load),
        "cw.save to .cord": (".cord", cw.save, cw.load),
    }
    with scratch(settings) as folder:
        contenders, sizes = [], {}
        for name, (suffix, save, load) in ways.items():
            target = folder / name.replace(" ", "-")
            run = partial(save_all, batch, save, target, suffix)
            emptied(target)
            run()
            sizes[name] = check(batch, target, suffix, load, name)
            contenders.append(Contender(name, run, before=partial(emptied, target)))
        times = interleave(contenders, min(settings.rounds, MOST_ROUNDS), least_seconds=0)
    table = Table(
        f"{len(batch)} slices of a {list(batch.shape)} float32 batch, one file each",
        [("way", "text"), ("bytes, all files", "bytes"), ("of clones", "ratio"), ("seconds", "seconds"),
         ("of clones", "ratio")],
    )  # fmt: skip
    clones = "torch.save of clones"
    whole = len(batch) * size_of_slice(batch[0])
    table.add("torch.save of slices, as they are", whole, whole / sizes[clones], None, None)
    for name, seconds in times.items():
        table.add(
            name, sizes[name], sizes[name] / sizes[clones], Spread.of(seconds), ratio(seconds, times[clones])
        )  # fmt: skip
    table.notes.append(
        "The first row is computed from one file: torch.save writes the whole batch for every slice. Photographs, "
        "prepared and normalised as for training. Every pass writes to an empty folder."
    )
    measured = {
        "slices-size": Spread.exact(sizes["cw.save to .pt"] / sizes[clones]),
        "slices-time": ratio(times["cw.save to .pt"], times[clones]),
    }
    return Outcome([table], measured)


def save_all(batch: Any, save: Callable[[Any, Path], object], folder: Path, suffix: str) -> None:
    """What a script does that prepares a data set."""
    for number in range(len(batch)):
        save(batch[number], folder / f"{number}{suffix}")


def check(batch: Any, folder: Path, suffix: str, load: Callable[[Path], Any], what: str) -> int:
    """Every slice is in its file; returns the bytes of all files."""
    files = [folder / f"{number}{suffix}" for number in range(len(batch))]
    if sorted(folder.iterdir()) != sorted(files):
        raise MismatchError(f"{what}: other files than were saved")
    for file, one in zip(files, batch, strict=True):
        require_same(load(file), one, f"{what}, {file.name}")
    return sum(file.stat().st_size for file in files)


def size_of_slice(one: Any) -> int:
    """Bytes that torch.save makes of a slice."""
    target = io.BytesIO()
    need("torch").save(one, target)
    return len(target.getbuffer())
