"""A state_dict of very many small tensors, where the cost per tensor is all there is."""

from functools import partial

import cordwood as cw
from benchmarks.data.tensors import emptied, require_same, scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, Spread, interleave, ratio

TITLE = "Many small tensors"
KEYS = ("pt-save-many",)
COUNT, ITEMS = 20_000, 64


def measure(settings: Settings) -> Outcome:
    """One table of saving."""
    torch = need("torch")
    generator = torch.Generator().manual_seed(0)
    state = {f"layers.{number}.weight": torch.randn(ITEMS, generator=generator) for number in range(COUNT)}
    ways = {
        "torch.save": ("torch.pt", torch.save, torch.load),
        "cw.save to .pt": ("ours.pt", cw.save, torch.load),
        "cw.save to .cord": ("ours.cord", cw.save, cw.load),
    }
    contenders, sizes = [], {}
    with scratch(settings) as folder:
        for name, (filename, save, load) in ways.items():
            save(state, folder / filename)
            require_same(load(folder / filename), state, name)
            sizes[name] = (folder / filename).stat().st_size
            contenders.append(Contender(name, partial(save, state, folder / filename), before=partial(emptied, folder)))
        times = interleave(contenders, settings.rounds, least_seconds=0)
    table = Table(
        f"Saving {COUNT:,} tensors of {ITEMS} float32 values",
        [("way", "text"), ("bytes", "bytes"), ("seconds", "seconds"), ("of torch.save", "ratio")],
    )
    for name in ways:
        table.add(name, sizes[name], Spread.of(times[name]), ratio(times[name], times["torch.save"]))
    table.notes.append("To a new name each time.")
    return Outcome([table], {KEYS[0]: ratio(times["cw.save to .pt"], times["torch.save"])})
