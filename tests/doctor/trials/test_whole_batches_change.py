"""The code that is shown for whole batches: it runs, and gives the batches that the script's own loader gives."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from cordwood.doctor.evidence.evidence import LoaderSeen
from cordwood.doctor.evidence.findings import Abstain, CodeLine
from cordwood.doctor.trials.loader import Setting
from cordwood.doctor.trials.whole_batches_change import whole_batches

BEFORE = """import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset, random_split
size = 7
g = torch.Generator().manual_seed(3)
data = TensorDataset(torch.arange(40.0).reshape(20, 2), torch.arange(20))
options = {"batch_size": 4}
"""
LINE = 7
NONE = Setting(0, None)


def changed(call: str, folder: Path, setting: Setting = NONE) -> tuple[Any, Any, str]:
    """The loader of a script, the one of the changed script, and the lines that are shown."""
    script = folder / "train.py"
    script.write_text(f"{BEFORE}loader = {call}\n")
    before: dict[str, Any] = {}
    exec(compile(script.read_text(), script, "exec"), before)
    seen = LoaderSeen(before["loader"], None, CodeLine(str(script), LINE))
    lines = whole_batches(seen, setting)
    after: dict[str, Any] = {}
    exec(BEFORE + lines, after)
    return before["loader"], after["loader"], lines


@pytest.mark.parametrize(
    "call",
    [
        "DataLoader(data, batch_size=6, shuffle=True, drop_last=True)",
        "DataLoader(data, batch_size=size, shuffle=True, generator=g)",
        "DataLoader(data, 4)",
        "DataLoader(TensorDataset(torch.arange(10.0)), batch_size=4, shuffle=size > 3)",
        "DataLoader(random_split(data, [15, 5], generator=g)[0], batch_size=4, shuffle=True)",
        "DataLoader(data, batch_size=4, sampler=RandomSampler(data, replacement=True, num_samples=9))",
        "DataLoader(data, batch_sampler=BatchSampler(SequentialSampler(data), 6, drop_last=True))",
        "torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)",
    ],
)
def test_the_changed_loader_gives_the_same_batches(call: str, tmp_path: Path) -> None:
    before, after, lines = changed(call, tmp_path)
    assert lines.startswith("# in train.py, in place of line 7:\n")
    assert after.batch_size is None
    assert len(after) == len(before)
    for _ in range(2):  # epochs
        found = []
        for loader in (before, after):
            torch.manual_seed(5)
            found.append(list(loader))
        for ours, theirs in zip(*found, strict=True):
            assert type(ours) is type(theirs)
            assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_what_else_the_call_says_stays(tmp_path: Path) -> None:
    call = "DataLoader(data, batch_size=size, shuffle=True, num_workers=2, prefetch_factor=4, in_order=True)"
    _, after, lines = changed(call, tmp_path, Setting(2, 4))
    assert (after.num_workers, after.prefetch_factor) == (2, 4)
    assert "BatchSampler(RandomSampler(data), batch_size=size, drop_last=False)" in lines
    _, after, lines = changed(call, tmp_path, Setting(0, None))
    assert (after.num_workers, after.prefetch_factor) == (0, None)
    assert "in_order=True" in lines


@pytest.mark.parametrize("call", ["DataLoader(data, **options)", "(DataLoader(data), DataLoader(data))[0]"])
def test_calls_that_cannot_be_changed(call: str, tmp_path: Path) -> None:
    with pytest.raises(Abstain, match="no change can be written down"):
        changed(call, tmp_path)


def test_a_notebook_has_no_file_to_read() -> None:
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=3, drop_last=True)
    text = whole_batches(LoaderSeen(loader, None, CodeLine("<cell 3>", 2)), Setting(0, None))
    order = "BatchSampler(SequentialSampler(loader.dataset), batch_size=3, drop_last=True)"
    assert f"loader = DataLoader(loader.dataset, sampler={order}, batch_size=None)" in text
    for unseen in (
        DataLoader(loader.dataset, sampler=[1, 2], batch_size=2),
        DataLoader(loader.dataset, batch_sampler=[[1, 2]]),
        DataLoader(loader.dataset, shuffle=True, generator=torch.Generator()),
    ):
        with pytest.raises(Abstain, match="a sampler that its call does not show"):
            whole_batches(LoaderSeen(unseen, None, CodeLine("<cell 3>", 2)), Setting(0, None))
