"""The sampler: what it sees belongs to the steps, ends with them, and leaves the interpreter as it was."""

import itertools
import sys
import threading
from types import CodeType

import numpy as np
import pytest

from cordwood.doctor.evidence.evidence import Evidence, StepTimes
from cordwood.doctor.probes.deep import stack_sampler
from cordwood.doctor.probes.deep.stack_sampler import StackProbe, StackSampler
from tests.doctor.support.watching import make_watched, watch


def busy(until: int, sampler: StackSampler) -> int:
    """Computes in Python until there are enough samples."""
    turns = 0
    while len(sampler.samples) < until:
        for turn in range(100):
            if turn % 3:
                turns += turn
    return turns


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "sampler" in thread.name]


def test_samples_show_the_function_at_work_and_add_up_to_the_time() -> None:
    sampler = StackSampler(make_watched())
    sampler.resume(3)
    busy(10, sampler)
    sampler.pause()
    taken = len(sampler.samples)
    sampler.close()
    assert len(sampler.samples) == taken
    assert sampler.steps == [3]
    assert {sample.step for sample in sampler.samples} == {3}
    assert sum(busy.__code__ in {code for code, _ in sample.stack} for sample in sampler.samples) >= taken - 1
    assert sum(sample.seconds for sample in sampler.samples) == pytest.approx(sampler.seconds)
    assert threads() == []


class NoThread:
    ident = 1

    def join(self) -> None:
        pass


def test_time_is_shared_among_samples_and_pauses_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(stack_sampler, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(stack_sampler, "stack_of", lambda identity: ((busy.__code__, 1),))
    sampler = StackSampler(make_watched())
    monkeypatch.setattr(sampler, "_thread", NoThread())

    def take(step: int, at_ms: float, wanted_ms: float) -> None:
        now[0] = int(at_ms * 1e6)
        sampler._take(step, int(wanted_ms * 1e6))

    sampler.resume(0)
    take(0, at_ms=2, wanted_ms=2)  # no sample before it: all of the time is its own
    take(0, at_ms=14, wanted_ms=4)  # slept for 2 ms, then a call into C kept the interpreter for 10
    now[0] = 15_000_000
    sampler.pause()
    now[0] = 100_000_000
    sampler.resume(1)
    take(1, at_ms=101, wanted_ms=101)
    sampler.close()
    assert [sample.seconds * 1e3 for sample in sampler.samples] == pytest.approx([3.0, 12.0, 1.0])
    assert sampler.seconds == pytest.approx(0.016)


def test_a_stack_is_never_told_with_the_phase_of_another_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    phase = ["optimizer"]
    looks: list[str] = []

    def moved_on(identity: int) -> tuple[tuple[CodeType, int], ...]:
        """The training thread reaches `busy` while the first look is under way."""
        looks.append(phase[0])
        phase[0] = "other"
        return ((busy.__code__, 1),)

    monkeypatch.setattr(stack_sampler, "stack_of", moved_on)
    sampler = StackSampler(make_watched(phase=lambda: phase[0]))
    monkeypatch.setattr(sampler, "_thread", NoThread())
    sampler.resume(0)
    sampler._take(0, 0)
    assert looks == ["optimizer", "other"]
    assert [sample.phase for sample in sampler.samples] == ["other"]

    phases = itertools.cycle(["other", "optimizer"])
    monkeypatch.setattr(sampler, "_watched", make_watched(phase=lambda: next(phases)))
    sampler._take(0, 0)
    sampler.close()
    assert len(sampler.samples) == 1


def test_the_switch_interval_is_given_back() -> None:
    before = sys.getswitchinterval()
    sampler = StackSampler(make_watched())
    sampler.resume(0)
    assert sys.getswitchinterval() < before
    sampler.pause()
    assert sys.getswitchinterval() == before
    sampler.resume(1)
    sys.setswitchinterval(before * 2)  # the script's own wish
    sampler.close()
    try:
        assert sys.getswitchinterval() == pytest.approx(before * 2)
    finally:
        sys.setswitchinterval(before)


def test_waiting_is_marked_and_disturbed_steps_are_left_out() -> None:
    probe = StackProbe()
    phases = {9: "wait", 10: "forward", 11: "forward"}
    now = ["other"]

    def step(number: int) -> None:
        now[0] = phases.get(number, "other")
        sampler = probe._sampler
        if sampler is not None:
            busy(len(sampler.samples) + 4, sampler)

    evidence = Evidence(
        steps=StepTimes(np.ones((2, 6)), count=12, first_waits=np.array([]), numbers=np.array([9, 10], np.int64))
    )
    watch(probe, step, 12, make_watched(phase=lambda: now[0]), evidence)
    stacks = evidence.stacks
    assert stacks is not None
    assert stacks.steps == 2
    assert {sample.step for sample in stacks.counted} == {10}
    assert {sample.step for sample in stacks.taken} == {8, 9, 10, 11}
    assert {sample.phase for sample in stacks.taken if sample.step == 9} == {"wait"}


def test_there_is_an_end_to_it() -> None:
    probe = StackProbe()
    assert [probe.wants(step) for step in (0, 7, 8, 10_000)] == [False, False, True, True]
    probe.begin(8, make_watched())
    assert probe._sampler is not None
    probe.end(8, make_watched())
    probe._sampler.seconds = 3.5
    assert probe.wants(9)  # one step is too few
    probe._sampler.steps = list(range(8, 16))
    assert not probe.wants(16)
    probe._sampler.steps, probe._sampler.seconds = [8], 30.0
    assert not probe.wants(9)
    probe.finish(Evidence(), make_watched())


def test_short_runs_say_what_is_missing() -> None:
    evidence = watch(StackProbe(), lambda step: None, 5)
    assert evidence.stacks is None
    assert "fewer than 9 training steps" in evidence.missing["stacks"]
