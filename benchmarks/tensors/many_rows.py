"""A state_dict of very many small tensors, where the cost per tensor is all there is."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import cordwood as cw
from benchmarks.data.tensors import emptied, require_same, scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, Spread, interleave, ratio

TITLE = "Many small tensors"
KEYS = ("pt-save-many",)
COUNT, QUICK_COUNT, ITEMS = 20_000, 2_000, 64


def measure(settings: Settings) -> Outcome:
    """Tables of saving: tensors of their own, and small views of three kinds."""
    torch = need("torch")
    generator = torch.Generator().manual_seed(0)
    count = QUICK_COUNT if settings.quick else COUNT
    own = [torch.randn(ITEMS, generator=generator) for _ in range(count)]
    batch = torch.randn(count, ITEMS, generator=generator)
    views = {
        "slices of one batch": batch.unbind(),
        "the first columns of a tensor each": [torch.randn(8, 16, generator=generator)[:, :8] for _ in range(count)],
        "transposed tensors": [torch.randn(8, 8, generator=generator).t() for _ in range(count)],
    }
    table, found = _saving(f"{count:,} tensors of {ITEMS} float32 values", own, settings)
    more = [_saving(f"{count:,} small views: {what}", made, settings, cord=False)[0] for what, made in views.items()]
    return Outcome([table, *more], {KEYS[0]: found})


def _saving(what: str, tensors: Sequence[Any], settings: Settings, *, cord: bool = True) -> tuple[Table, Spread]:
    """A table, and how long a `.pt` takes of torch.save's time."""
    torch = need("torch")
    state = {f"layers.{number}.weight": tensor for number, tensor in enumerate(tensors)}
    ways = {
        "torch.save": ("torch.pt", torch.save, torch.load),
        "cw.save to .pt": ("ours.pt", cw.save, torch.load),
    }
    if cord:
        ways["cw.save to .cord"] = ("ours.cord", cw.save, cw.load)
    contenders, sizes = [], {}
    with scratch(settings) as folder:
        for name, (filename, save, load) in ways.items():
            save(state, folder / filename)
            require_same(load(folder / filename), state, name)
            sizes[name] = (folder / filename).stat().st_size
            contenders.append(Contender(name, partial(save, state, folder / filename), before=partial(emptied, folder)))
        times = interleave(contenders, settings.rounds, least_seconds=0)
    table = Table(
        f"Saving {what}",
        [("way", "text"), ("bytes", "bytes"), ("seconds", "seconds"), ("of torch.save", "ratio")],
    )
    for name in ways:
        table.add(name, sizes[name], Spread.of(times[name]), ratio(times[name], times["torch.save"]))
    table.notes.append("To a new name each time.")
    return table, ratio(times["cw.save to .pt"], times["torch.save"])
