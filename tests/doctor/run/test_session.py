"""A session over real training loops: what it leaves unchanged, and that it is gone afterwards."""

import gc
import sys
import threading
import types
import warnings
import weakref
from typing import Any

import pytest
import torch
import torch._dynamo  # it replaces names in torch itself when it is first needed
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter, _SingleProcessDataLoaderIter

import cordwood as cw
from cordwood.doctor.probes.deep.base import DeepProbe, WatchedScript
from cordwood.doctor.probes.phases.step_tracker import StepTracker
from cordwood.doctor.run.session import Session
from tests.doctor.support.smallnet import Net, data, seen_steps, train

pytestmark = pytest.mark.usefixtures("one_thread")


def patched_things() -> dict[str, Any]:
    from torch.amp.grad_scaler import GradScaler
    from torch.optim import optimizer
    from torch.utils.data._utils import fetch, worker

    from cordwood.feed.iterator import LoaderIterator

    owners: list[Any] = [
        torch, torch.autograd, torch.Tensor, nn.Module, DataLoader, _BaseDataLoaderIter, GradScaler, cw.Loader,
        LoaderIterator, fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher, worker, warnings,
    ]  # fmt: skip
    found: dict[str, Any] = {
        f"{owner.__name__}.{name}": value
        for owner in owners
        for name, value in vars(owner).items()
        if callable(value) or isinstance(value, types.FunctionType)
    }
    found["hooks"] = (len(optimizer._global_optimizer_pre_hooks), len(optimizer._global_optimizer_post_hooks))
    return found


def test_losses_are_the_same_bit_for_bit() -> None:
    bare = train()
    with cw.diagnose(seconds=0.0) as d:
        watched = train()
    assert watched == bare
    assert d.report.document["steps"]["count"] == 48
    assert train() == bare


@pytest.mark.slow
def test_random_generators_are_as_before_when_rules_have_judged() -> None:
    with cw.diagnose(seconds=0.2) as d:
        train()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    assert d.report is d.report
    assert torch.equal(torch.rand(3), expected)


def test_everything_is_undone() -> None:
    before = patched_things()
    with cw.diagnose(seconds=0.0):
        train(1)
        assert patched_things() != before
    after = patched_things()
    assert {name for name in before if before[name] is not after[name] and before[name] != after[name]} == set()
    assert before.keys() == after.keys()


def test_everything_is_undone_after_so_many_steps() -> None:
    before = patched_things()
    session = Session(steps=5, seconds=0.0)
    session.attach()
    train(1)
    assert patched_things() == before
    assert seen_steps(session).count == 5


def test_types_stay_what_they_are(session: Session) -> None:
    kinds: list[type] = []
    train(1, watch=lambda iterator: kinds.append(type(iterator)))
    assert kinds == [_SingleProcessDataLoaderIter]


def test_a_hook_of_the_users_survives_letting_go_in_the_midst_of_a_step() -> None:
    from torch.optim import optimizer as hooks

    before = len(hooks._global_optimizer_pre_hooks), len(hooks._global_optimizer_post_hooks)
    session = Session(steps=4, seconds=0.0)
    session.attach()
    counted: list[int] = []
    handle = hooks.register_optimizer_step_pre_hook(lambda *_: counted.append(1))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):  # no loader: the doctor lets go inside an optimizer's step
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    handle.remove()
    assert len(counted) == 10
    assert seen_steps(session).count == 4
    assert (len(hooks._global_optimizer_pre_hooks), len(hooks._global_optimizer_post_hooks)) == before


def test_an_exception_of_the_script_passes_and_leaves_nothing_behind() -> None:
    before = patched_things()
    d = cw.diagnose(seconds=0.0)

    def broken() -> None:
        with d:
            train(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert patched_things() == before
    assert d.report.document["steps"]["count"] == 24
    assert "the block ended with ZeroDivisionError after 24 steps" in d.report.document["notes"][0]


def test_leaving_on_purpose_is_no_early_end() -> None:
    d = cw.diagnose(seconds=0.0)

    def leave() -> None:
        with d:
            train()
            sys.exit()

    with pytest.raises(SystemExit):
        leave()
    assert not any("the block ended" in note for note in d.report.document["notes"])


def test_steps_that_were_not_watched_are_not_counted_at_an_early_end() -> None:
    d = cw.diagnose(seconds=0.0, steps=9)

    def broken() -> None:
        with d:
            train()
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert d.report.document["notes"][0] == "the block ended with KeyError: what would have come later was not seen"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seconds": -1}, "seconds is -1"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"seconds": float("inf")}, "seconds is inf"),
        ({"seconds": "3"}, "seconds is '3'"),
        ({"model": 3}, "model is of type int"),
        ({"loader": 3}, "loader is of type int, which cannot be iterated"),
    ],
)
def test_what_nothing_can_be_watched_by_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(cw.UsageError, match=told):
        cw.diagnose(**options)


def test_there_is_no_report_before_the_block() -> None:
    with pytest.raises(cw.UsageError, match="has not begun"):
        _ = cw.diagnose().report


def test_without_replays_judging_is_not_called_one() -> None:
    with cw.diagnose(seconds=0) as d:
        train()
    assert "judging afterwards took" in " ".join(str(d.report).split())


def test_one_at_a_time() -> None:
    with cw.diagnose(seconds=0.0) as d:
        with pytest.raises(cw.UsageError, match="under way already"), cw.diagnose():
            pass
        with pytest.raises(cw.UsageError, match="after the `with` block"):
            _ = d.report
    with pytest.raises(cw.UsageError, match="has had its block"), d:
        pass
    for steps in (0, True):
        with pytest.raises(cw.UsageError, match=f"steps must be a whole number, 1 or more, got {steps}"):
            cw.diagnose(steps=steps)


class Broken(DeepProbe):
    signal = "syncs"

    def __init__(self, when: str) -> None:
        self._when = when
        self.asked: list[int] = []

    def _maybe(self, when: str) -> None:
        if when == self._when:
            raise KeyError("a bug of ours")

    def wants(self, step: int) -> bool:
        self.asked.append(step)
        return step in (4, 6)

    def begin(self, step: int, watched: WatchedScript) -> None:
        self._maybe("begin")

    def end(self, step: int, watched: WatchedScript) -> None:
        self._maybe("end")

    def finish(self, evidence: Any, watched: WatchedScript) -> None:
        self._maybe("finish")


@pytest.mark.parametrize("when", ["begin", "end", "finish"])
def test_a_probe_that_breaks_is_told_of_and_harms_nothing(when: str) -> None:
    bare = train(1)
    session = Session(seconds=0.0)
    session.attach()
    probe = Broken(when)
    session._deep, session._pending_probes = [probe], [probe]
    assert train(1) == bare
    assert seen_steps(session).count == 24
    assert "KeyError" in session.evidence.missing["syncs"]
    assert (max(probe.asked) > 6) == (when == "finish")


def test_nothing_runs_on_when_no_report_is_asked_for(session: Session) -> None:
    train(1)
    session.detach()
    assert not [thread for thread in threading.enumerate() if "cordwood doctor" in thread.name]
    assert seen_steps(session).count == 24
    # On a busy machine the sampled steps may be too unlike the others to tell of them.
    assert session.evidence.stacks is not None or "unlike" in session.evidence.missing["stacks"]


def test_a_bug_in_the_engine_detaches_it(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise KeyError("a bug of ours")

    monkeypatch.setattr(StepTracker, "backward", broken)
    bare = train(1)
    assert len(bare) == 24
    assert "KeyError" in session.evidence.missing["steps"]
    assert any("it let go of the script" in note for note in session.evidence.notes)
    assert not session._is_attached


def test_tensors_of_the_script_die_as_they_would(session: Session) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    alive: list[weakref.ref[torch.Tensor]] = []
    for number, (x, y) in enumerate(DataLoader(data(), batch_size=2)):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if number > 30:
            alive.append(weakref.ref(loss))
    del loss, x, y
    gc.collect()
    assert sum(reference() is not None for reference in alive) == 0


def test_a_loader_dies_with_the_script_that_made_it() -> None:
    """Workers that persist end with their loader; one that is kept to the interpreter's end leaves files of theirs."""

    def script() -> "weakref.ref[Any]":
        loader = DataLoader(data(), batch_size=2)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        return weakref.ref(loader)

    with cw.diagnose(seconds=0.0) as d:
        loader = script()
    assert d.report.document["steps"] is not None
    assert loader() is None
