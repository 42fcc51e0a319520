"""Calls that take values out of tensors: seen by line, passed through unchanged, and forgotten afterwards."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cordwood.doctor.evidence.evidence import Evidence, StepTimes, SyncCall
from cordwood.doctor.probes.deep.syncs import SyncProbe
from tests.doctor.support.watching import make_watched, watch

TAKING: dict[str, Callable[[], Any]] = {
    ".item()": lambda: torch.ones(1).item(),
    ".tolist()": lambda: torch.ones(3).tolist(),
    ".numpy()": lambda: torch.ones(3).numpy(),
    ".cpu()": lambda: torch.ones(3).cpu(),
    "bool()": lambda: bool(torch.ones(1)),
    "float()": lambda: float(torch.ones(1)),
    "int()": lambda: int(torch.ones(1)),
    "use as an index": lambda: [1, 2, 3][torch.tensor(1)],
    "conversion to NumPy": lambda: np.asarray(torch.ones(3)),
    "nonzero()": lambda: (torch.ones(3).nonzero(), torch.nonzero(torch.ones(3))),
    "printing": lambda: (str(torch.ones(3)), repr(torch.ones(3)), f"{torch.ones(1)}", f"{torch.ones(1).sum():.3f}"),
}


def calls_of(step: Callable[[int], Any], steps: int = 12) -> list[SyncCall]:
    evidence = watch(SyncProbe(), step, steps)
    assert evidence.syncs is not None
    return evidence.syncs.calls


@pytest.mark.parametrize("operation", TAKING)
def test_every_way_is_seen_at_its_line_and_once(operation: str) -> None:
    take = TAKING[operation]
    [call] = calls_of(lambda step: take())
    values = take()
    assert (call.operation, call.device) == (operation, "cpu")
    assert call.calls == 4 * (len(values) if isinstance(values, tuple) else 1)
    assert call.place is not None
    assert (call.place.file, call.place.line) == (__file__, take.__code__.co_firstlineno)
    assert sorted(call.by_step) == [8, 9, 10, 11]
    assert call.milliseconds == pytest.approx(sum(call.by_step.values()))


def attributes() -> dict[str, Any]:
    names = ["item", "tolist", "numpy", "cpu", "nonzero", "to", "__bool__", "__float__", "__int__", "__index__"]
    names += ["__repr__", "__str__", "__format__", "__array__"]
    return {name: vars(torch.Tensor).get(name) for name in names} | {"torch.nonzero": torch.nonzero}


def test_everything_is_as_it_was_between_and_after_the_steps() -> None:
    before = attributes()
    probe = SyncProbe()
    probe.begin(8, make_watched())
    assert attributes() != before
    probe.end(8, make_watched())
    assert attributes() == before


def test_values_types_errors_and_subclasses_pass_through() -> None:
    class Marked(torch.Tensor):
        pass

    marked = torch.ones(2).as_subclass(Marked)
    results: list[Any] = []

    def step(number: int) -> None:
        results.append((marked.tolist(), repr(marked), float(marked.sum()), torch.eye(2).nonzero(as_tuple=True)[0]))
        with pytest.raises(RuntimeError):
            torch.ones(2).item()

    watch(SyncProbe(), step, 12)
    plain, watched = results[0], results[-1]
    assert watched[:3] == plain[:3]
    assert torch.equal(watched[3], plain[3])


def test_other_threads_the_loader_and_torch_itself_do_not_count() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], foreach=False)  # takes its step's number with .item()
    phase = ["other"]

    def step(number: int) -> None:
        thread = threading.Thread(target=lambda: torch.ones(1).item())
        thread.start()
        thread.join()
        phase[0] = "wait"
        torch.ones(1).item()
        phase[0] = "optimizer"
        weight.grad = torch.ones(3)
        optimizer.step()

    evidence = watch(SyncProbe(), step, 12, make_watched(phase=lambda: phase[0]))
    assert evidence.syncs is not None
    assert evidence.syncs.calls == []


def test_a_loop_of_many_calls_is_watched_closely_and_not_for_long() -> None:
    value = torch.ones(1)
    probe, watched = SyncProbe(), make_watched()
    disturbed: list[int] = []
    at = [0]

    def disturb() -> bool:
        disturbed.append(at[0])
        return at[0] != 9  # that one is disturbed by another probe already

    def step(number: int) -> None:
        at[0] = number
        for _ in range(49 if number == 10 else 200):
            value.item()

    watched.disturb = disturb
    quiet = StepTimes(np.ones((1, 6)), count=40, first_waits=np.array([]), numbers=np.array([10], np.int64))
    evidence = watch(probe, step, 40, watched, Evidence(steps=quiet))
    assert disturbed == [8, 9, 11, 12, 13, 14, 15, 16]
    assert not probe.wants(20)
    assert evidence.syncs is not None
    [call] = evidence.syncs.calls
    assert sorted(call.by_step) == [8, 10, 11, 12, 13, 14, 15, 16]


def test_only_undisturbed_steps_count() -> None:
    value = torch.ones(4)
    evidence = Evidence(
        steps=StepTimes(np.ones((2, 6)), count=12, first_waits=np.array([]), numbers=np.array([8, 10], np.int64))
    )
    watch(SyncProbe(), lambda step: value.tolist(), 12, evidence=evidence)
    assert evidence.syncs is not None
    assert evidence.syncs.steps == 2
    [call] = evidence.syncs.calls
    assert sorted(call.by_step) == [8, 10]
    assert (call.calls, call.elements) == (2, 4)


def test_with_compiled_code_nothing_is_replaced() -> None:
    watched = make_watched()
    watched.compiled.append("model")
    before = attributes()
    during: list[bool] = []
    evidence = watch(SyncProbe(), lambda step: during.append(attributes() == before), 12, watched)
    assert all(during)
    assert evidence.syncs is None
    assert "torch.compile" in evidence.missing["syncs"]


def test_a_failure_of_its_own_reaches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise ValueError("broken")

    monkeypatch.setattr("cordwood.doctor.probes.deep.syncs.user_frame", broken)
    values: list[float] = []
    evidence = watch(SyncProbe(), lambda step: values.append(torch.ones(1).item()), 12)
    assert values == [1.0] * 12
    assert evidence.syncs is None
    assert "broken" in evidence.missing["syncs"]
