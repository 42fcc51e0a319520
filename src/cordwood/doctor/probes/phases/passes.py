"""Times backward passes, optimizer steps, and copies to a device."""

import functools
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from cordwood.doctor.evidence.evidence import TransferCall
from cordwood.doctor.evidence.places import user_place
from cordwood.doctor.measure.environment import note_rank
from cordwood.doctor.probes.patches import Patches
from cordwood.doctor.probes.phases.clock import BACKWARD, OPTIMIZER, OTHER, TRANSFER, device_timeline
from cordwood.doctor.probes.phases.recorder import Recorder
from cordwood.doctor.probes.phases.rhythm import END

_MOST_LINES = 256
_PASS = -2  # a backward pass, in the rhythm of a step


class PassProbe:
    """Times backward passes and optimizer steps, and tells the tracker of them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._clock = recorder.clock
        self._optimizers: set[int] = set()
        self._is_scaling = False
        self._is_inside = False
        self.before = self._making_before()
        self.after = self._making_after()
        self._left: list[Any] = []  # hooks that could not be taken out yet

    def install(self, patches: Patches) -> None:
        """Watch autograd, every optimizer and the gradient scaler."""
        patches.replace(torch.autograd, "backward", self.timing_backward(torch.autograd.backward))
        patches.replace(torch.autograd, "grad", self.timing_backward(torch.autograd.grad))
        patches.replace(GradScaler, "step", self._noting_skips(GradScaler.step))
        patches.also(self._remover(register_optimizer_step_pre_hook(self.before)))
        patches.also(self._remover(register_optimizer_step_post_hook(self.after)))

    def _remover(self, handle: Any) -> Callable[[], None]:
        """Takes the hook out, but not from within: torch is going through all hooks then."""

        def remove() -> None:
            if self._is_inside:
                self._left.append(handle)
            else:
                handle.remove()

        return remove

    def left_over(self) -> None:
        """Take out what is left; to be called when no optimizer is stepping."""
        while self._left and not self._is_inside:
            self._left.pop().remove()

    def timing_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        recorder, clock, rhythm = self._recorder, self._recorder.clock, self._recorder.rhythm
        expected, following, times = rhythm.expected, rhythm.following, rhythm.times

        @functools.wraps(original)
        def backward(*arguments: Any, **options: Any) -> Any:
            before = clock.current
            if get_ident() != clock.thread or before == BACKWARD:
                return original(*arguments, **options)
            at = rhythm.at
            if expected[at] == _PASS:
                rhythm.at = following[at]
                clock.current = BACKWARD
                times.append(perf_counter_ns())
            else:
                try:
                    recorder.tracker.backward()
                    rhythm.begin(_PASS, BACKWARD, recorder.tracker.backward)
                except Exception as error:
                    recorder.broke("steps", error)
            try:
                return original(*arguments, **options)
            finally:
                at = rhythm.at
                if expected[at] == END:
                    times.append(perf_counter_ns())
                    rhythm.at = following[at]
                    clock.current = before
                else:
                    rhythm.begin(END, before)

        return backward

    def _making_before(self) -> Callable[[Any, Any, Any], None]:
        clock, rhythm, around = self._clock, self._recorder.rhythm, self._clock.around
        expected, following, times = rhythm.expected, rhythm.following, rhythm.times

        def before(optimizer: Any, arguments: Any, options: Any) -> None:
            at = rhythm.at
            if expected[at] != id(optimizer) or len(times) >= rhythm.most or get_ident() != clock.thread:
                self._before_the_long_way(optimizer)
                return
            rhythm.at = following[at]
            around.extend((id(optimizer), clock.current))
            clock.current = OPTIMIZER
            times.append(perf_counter_ns())

        return before

    def _before_the_long_way(self, optimizer: Any) -> None:
        recorder, clock = self._recorder, self._clock
        if get_ident() != clock.thread and not self._adopted(clock):
            return
        tracker, key = recorder.tracker, id(optimizer)
        self._is_inside = True
        try:
            if key not in self._optimizers:
                self._first_seen(optimizer)
            if key in clock.around:
                clock.leave_optimizers()
            if not self._is_scaling:
                tracker.updates(key)
            if clock.thread is not None:
                clock.around.extend((key, recorder.rhythm.begin(key, OPTIMIZER, tracker.updates, key)))
        except Exception as error:
            recorder.broke("steps", error)
        self._is_inside = self._is_scaling = False

    def _making_after(self) -> Callable[[Any, Any, Any], None]:
        clock, rhythm, around = self._clock, self._recorder.rhythm, self._clock.around
        expected, following, times = rhythm.expected, rhythm.following, rhythm.times

        def after(optimizer: Any, arguments: Any, options: Any) -> None:
            if clock.current != OPTIMIZER or get_ident() != clock.thread:
                return
            before = around.pop() if around else OTHER
            del around[-1:]
            at = rhythm.at
            if expected[at] == END:
                times.append(perf_counter_ns())
                rhythm.at = following[at]
                clock.current = before
            else:
                self._is_inside = True
                rhythm.begin(END, before)
                self._is_inside = False

        return after

    def _first_seen(self, optimizer: Any) -> None:
        self._optimizers.add(id(optimizer))
        self._recorder.watched.note_optimizer(optimizer)
        if self._clock.timeline is None:
            self._clock.timeline = device_timeline()
        note_rank(self._recorder.evidence.environment)

    def _adopted(self, clock: Any) -> bool:
        """Training in a thread of its own: the first thread that steps an optimizer is the one to watch."""
        if clock.thread is None or self._optimizers or clock.current != OTHER:
            return False
        clock.thread = get_ident()
        return True

    def _noting_skips(self, original: Callable[..., Any]) -> Callable[..., Any]:
        recorder, clock = self._recorder, self._recorder.clock

        @functools.wraps(original)
        def step(scaler: Any, optimizer: Any, *arguments: Any, **options: Any) -> Any:
            # A step that the scaler skips is a step of training all the same: it ends with the next batch.
            if clock.is_training_thread():
                with recorder.guarded("steps"):
                    recorder.rhythm.interrupt()
                    if id(optimizer) not in self._optimizers:
                        self._first_seen(optimizer)  # its own step may not come for long
                    recorder.tracker.updates(id(optimizer))
                self._is_scaling = True
            try:
                return original(scaler, optimizer, *arguments, **options)
            finally:
                if self._is_scaling:
                    self._is_scaling = False
                    recorder.tracker.skipped_updates += 1

        return step


class TransferProbe:
    """Times copies from host memory to a device."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lines: dict[tuple[str, int] | None, TransferCall] = {}

    def install(self, patches: Patches) -> None:
        """Watch ``.to``, ``.cuda`` and ``.copy_``, on machines that have a device to copy to."""
        if not torch.accelerator.is_available():
            return
        self._recorder.rhythm.is_allowed = False  # copies and the device's own timeline are told of as they come
        for name in ("to", "cuda", "copy_"):
            patches.replace(torch.Tensor, name, self.timing(getattr(torch.Tensor, name)))

    def timing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The same method; what it copies from the host to a device is timed and counted by line."""
        recorder, clock = self._recorder, self._recorder.clock

        @functools.wraps(original)
        def copy(tensor: Any, *arguments: Any, **options: Any) -> Any:
            if not clock.is_training_thread() or clock.current == TRANSFER or torch.compiler.is_compiling():
                return original(tensor, *arguments, **options)
            around = clock.switch(TRANSFER)
            before = clock.since
            try:
                result = original(tensor, *arguments, **options)
            finally:
                clock.switch(around)
            with recorder.guarded("transfers"):
                source = arguments[0] if original.__name__ == "copy_" and arguments else tensor
                if isinstance(source, torch.Tensor) and source.device.type == "cpu" and result.device.type != "cpu":
                    self._count(source, bool(options.get("non_blocking")), (clock.since - before) / 1e6)
                else:  # it only changed the dtype, or nothing: the phase around it has the time
                    clock.spent[clock.current] += clock.since - before
                    clock.spent[TRANSFER] -= clock.since - before
            return result

        return copy

    def _count(self, source: Any, non_blocking: bool, milliseconds: float) -> None:
        place = user_place()
        key = None if place is None else (place.file, place.line)
        call = self._lines.get(key)
        if call is None:
            if len(self._lines) >= _MOST_LINES:
                return
            call = self._lines[key] = TransferCall(place)
            self._recorder.evidence.transfers.append(call)
        call.calls += 1
        call.nbytes += source.nbytes
        call.milliseconds += milliseconds
        call.unpinned += not source.is_pinned()
        call.blocking += not non_blocking
