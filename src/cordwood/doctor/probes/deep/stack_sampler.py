"""Samples the stack of the training thread every two milliseconds or so, from another thread.

    probe = StackProbe()
    ...
    probe.finish(evidence, watched)
    evidence.stacks.functions

Nothing is put into the user's code, and nothing of it is kept but code objects and line numbers.
"""

import sys
import threading
from random import Random
from time import perf_counter_ns, sleep

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.stacks import Stacks, StackSample
from cordwood.doctor.probes.deep.base import DeepProbe, WatchedScript
from cordwood.doctor.probes.thread_stacks import stack_of

INTERVAL_S = 0.002
_FIRST_STEP = 8  # steps before it warm up
_ENOUGH_S = 3.0
_ENOUGH_SAMPLES = 800  # a part of a tenth is then known to one hundredth
_COST_SHARE = 0.02  # of the training thread's time: it cannot run Python while it is looked at
_ENOUGH_STEPS = 8  # where steps are long, unless that takes too long
_TOO_LONG_S = 20.0
_SEED = 7
_UNUSUAL = 3.0  # times the median step
_MOST_LOOKS = 3  # until the phase is the same before and after the stack is read
# A thread that runs Python gives the interpreter away when it calls into torch, or after this long. Without a shorter
# time than Python's 5 ms, whatever runs just before a call into torch would be counted as that call.
_SWITCH_S = 0.00005


class StackSampler:
    """A thread that samples another one, between `resume` and `pause`.

    Time is shared among samples, pauses left out: steps may be shorter than the interval. Each gets half of the sleep
    before it and half of the sleep after it. What comes on top before a sample is the wait for the interpreter, which
    the other thread does not give away while it is inside a call into C: that call's line gets this time.
    """

    def __init__(self, watched: WatchedScript, interval_s: float = INTERVAL_S) -> None:
        self.samples: list[StackSample] = []
        self.steps: list[int] = []  # that were sampled from beginning to end
        self.seconds = 0.0
        self._watched = watched
        self._shortest = self._interval = interval_s
        self._chance = Random(_SEED)  # noqa: S311 - of its own: those of the script are left alone
        self._step: int | None = None  # None: paused
        # Each is written by one thread only: pauses by the training thread, the last sample's time by the sampler.
        self._paused_ns = 0
        self._pause_began = perf_counter_ns()
        self._last_ns = self._pause_began
        self._has_ended = False
        self._go = threading.Event()
        self._switch: float | None = None
        self._thread = threading.Thread(target=self._run, name="cordwood doctor's stack sampler", daemon=True)

    def resume(self, step: int) -> None:
        """From here on, samples belong to this step."""
        self._switch = sys.getswitchinterval()
        sys.setswitchinterval(min(_SWITCH_S, self._switch))
        self._paused_ns += perf_counter_ns() - self._pause_began
        self._step = step
        self._go.set()
        if self._thread.ident is None:
            self._thread.start()

    def pause(self) -> None:
        """The step is over; no samples until the next one that is wanted."""
        self._go.clear()
        if self._step is not None:
            self.steps.append(self._step)
            self._step = None
            self._pause_began = perf_counter_ns()
        self._give_back_switch()

    def close(self) -> None:
        """Stop for good, and wait for the thread's end."""
        self._has_ended = True
        self._step = None
        self._give_back_switch()
        self._go.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _give_back_switch(self) -> None:
        before, self._switch = self._switch, None
        # Who changed it since then wants it so.
        if before is not None and abs(sys.getswitchinterval() - min(_SWITCH_S, before)) < 1e-6:
            sys.setswitchinterval(before)

    def _run(self) -> None:
        while not self._has_ended:
            self._go.wait()
            # Of no fixed length: one that is near to a step's would find every step at the same place.
            pause = self._interval * self._chance.uniform(0.5, 1.5)
            wanted = perf_counter_ns() + int(pause * 1e9)
            sleep(pause)
            step = self._step
            if step is not None:
                start = perf_counter_ns()
                self._take(step, wanted)
                # On a busy machine a look takes longer, since this thread may lose its core in the middle of it.
                cost = (perf_counter_ns() - start) / 1e9
                self._interval = max(self._shortest, 0.9 * self._interval + 0.1 * cost / _COST_SHARE)

    def _take(self, step: int, wanted: int) -> None:
        identity = self._watched.thread()
        # On a busy machine this thread may lose its core between the two looks. A stack with another moment's phase
        # would make a line of the user's code look like one that runs a backward pass.
        for _ in range(_MOST_LOOKS):
            phase = self._watched.phase()
            stack = None if identity is None else stack_of(identity)
            if phase == self._watched.phase():
                break
        else:
            return
        now = perf_counter_ns()
        if stack is None or step != self._step:
            return
        whole = now - self._paused_ns - self._last_ns
        self._last_ns += whole
        half = max(0, whole - max(0, now - wanted)) / 2e9
        if self.samples:
            self.samples[-1] = self.samples[-1].longer_by(half)
        self.samples.append(StackSample(step, whole / 1e9 - (half if len(self.samples) else 0.0), phase, stack))
        self.seconds += whole / 1e9


class StackProbe(DeepProbe):
    """Samples the stacks of training steps until there is enough."""

    signal = "stacks"
    disturbs = False

    def __init__(self) -> None:
        self._sampler: StackSampler | None = None

    def wants(self, step: int) -> bool:
        sampler = self._sampler
        if step < _FIRST_STEP or sampler is None:
            return step >= _FIRST_STEP
        enough = sampler.seconds >= _ENOUGH_S or len(sampler.samples) >= _ENOUGH_SAMPLES
        return sampler.seconds < _TOO_LONG_S and not (enough and len(sampler.steps) >= _ENOUGH_STEPS)

    def is_over(self, step: int) -> bool:
        return self._sampler is not None and not self.wants(step)

    def begin(self, step: int, watched: WatchedScript) -> None:
        if self._sampler is None:
            self._sampler = StackSampler(watched)
        self._sampler.resume(step)

    def end(self, step: int, watched: WatchedScript) -> None:
        if self._sampler is not None:
            self._sampler.pause()

    def let_go(self) -> None:
        if self._sampler is not None:
            self._sampler.close()

    def finish(self, evidence: Evidence, watched: WatchedScript) -> None:
        if self._sampler is None:
            evidence.missing[self.signal] = f"fewer than {_FIRST_STEP + 1} training steps: no stacks were sampled"
            return
        self.let_go()
        steps = set(self._sampler.steps)
        if evidence.steps is not None and len(evidence.steps.times):
            # A step with something else in it, such as validation, would have its time in all figures.
            usual = evidence.steps.totals <= _UNUSUAL * evidence.steps.median_ms
            steps &= {int(number) for number in evidence.steps.numbers[usual]}
        stacks = Stacks.of(self._sampler.samples, INTERVAL_S * 1e3, steps)
        if stacks.samples:
            evidence.stacks = stacks
        else:
            evidence.missing[self.signal] = "the steps that were sampled were too short, or unlike the others"
