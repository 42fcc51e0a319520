"""Times forward passes: the calls of modules that the script makes itself, not those between modules.

At first ``nn.Module.__call__`` is replaced. After some steps it is known which classes the script calls itself, and
only these are watched: the layers within them cost nothing any more. A new loader that starts, as for validation, or a
batch without any forward pass has all modules watched again. Dynamo would trace into a replaced ``__call__``, and so
compile something else than without the doctor: from the first use of torch.compile on only the calls of what is
compiled are timed, which no trace passes through.
"""

import functools
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Any

import torch
from torch import nn

from cordwood.doctor.evidence.evidence import ModuleSeen, StageSeen, ValidationSeen
from cordwood.doctor.evidence.places import user_place
from cordwood.doctor.measure.train_mode import layers_in_train_mode
from cordwood.doctor.probes.patches import Patches
from cordwood.doctor.probes.phases.clock import FORWARD, OPTIMIZER, OTHER
from cordwood.doctor.probes.phases.module_calls import ModuleCalls
from cordwood.doctor.probes.phases.recorder import Recorder
from cordwood.doctor.probes.phases.rhythm import END

_MOST_MODULES = 64
_MOST_KEPT = 12  # modules with parameters: a script may make new ones for every few steps
_LARGEST_ARGUMENTS = 256 << 20  # bytes
_WIDE_STEPS = 16  # with all modules watched
_NEVER = 1 << 62
_KEEP_FROM = 3  # training calls: the first ones may be unlike the rest

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class ModuleProbe:
    """Knows the modules that the script calls, and whether it learns from them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._tracker = recorder.tracker
        self._seen: dict[int, ModuleSeen] = {}
        self._called: list[tuple[ModuleSeen, bool, bool, Any]] = []  # since the last border
        self._stretch = 0
        self._validations: dict[int, ValidationSeen] = {}
        self._calls = ModuleCalls(self.timing)
        self._outermost: set[type] = set()  # classes that are called from outside
        self._compiled: set[type] = set()
        self._plain: dict[int, Any] = {}  # modules without parameters; kept, so that no other gets their id
        self._narrow_at = _NEVER  # training steps

    def install(self, patches: Patches, model: Any = None) -> None:
        """Watch the calls of all modules; the given one is known before it is called."""
        if isinstance(model, nn.Module):
            self._seen[id(model)] = ModuleSeen(_unwrapped(model), None)
            self._recorder.watched.modules.append(self._seen[id(model)])
        self._calls.of_all()
        self._narrow_at = _WIDE_STEPS
        patches.also(self._calls.undo)
        self._tracker.validation_ended = self._validated
        self._tracker.without_forward = self._missed

    def widen(self) -> None:
        """Something new may be called from here on: watch all modules for some steps."""
        if not self._compiled and self._recorder.clock.thread is not None:
            self._calls.of_all()
            self._narrow_at = self._tracker.settled_at = self._tracker.count + _WIDE_STEPS

    def _missed(self) -> None:
        """No call of a module was seen in a step: the script may call others by now."""
        if self._narrow_at == _NEVER:
            self.widen()

    def _narrow(self) -> None:
        """What the script calls itself is known by now."""
        self._narrow_at = _NEVER
        if not self._compiled and len(self._plain) < _MOST_MODULES:
            self._calls.of(self._outermost)

    def only_from_outside(self, compiled: Any) -> None:
        """Something is to be compiled: leave ``nn.Module`` alone, and watch the outermost classes instead."""
        self._compiled.add(_optimized_module())
        module = getattr(compiled, "__self__", None)  # model.compile() hands over a bound method
        if isinstance(module, nn.Module):
            self._compiled.add(type(module))
        self._calls.of(self._compiled)

    def timing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        clock, rhythm, long_way = self._recorder.clock, self._recorder.rhythm, self._call_the_long_way
        expected, following, times = rhythm.expected, rhythm.following, rhythm.times
        is_grad_enabled = torch.is_grad_enabled

        @functools.wraps(original)
        def __call__(module: Any, *arguments: Any, **options: Any) -> Any:  # noqa: N807
            current = clock.current
            if current != OTHER and current != OPTIMIZER:  # inside a module, a backward pass or a dataset
                clock.nested += 1
                return original(module, *arguments, **options)
            at = rhythm.at
            token = id(module) if module.training and is_grad_enabled() else ~id(module)
            if expected[at] != token or get_ident() != clock.thread:
                return long_way(original, module, arguments, options)
            rhythm.at = following[at]
            clock.current = FORWARD
            times.append(perf_counter_ns())
            try:
                return original(module, *arguments, **options)
            finally:
                at = rhythm.at
                if expected[at] == END:
                    times.append(perf_counter_ns())
                    rhythm.at = following[at]
                    clock.current = current
                else:
                    rhythm.begin(END, current)

        return __call__

    def _call_the_long_way(
        self, original: Callable[..., Any], module: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        clock, rhythm, current = self._recorder.clock, self._recorder.rhythm, self._recorder.clock.current
        if get_ident() != clock.thread:
            return original(module, *arguments, **options)
        try:
            gradients, training = torch.is_grad_enabled(), module.training
            seen = self._noted(module, arguments, options, gradients, training)
            token = id(module) if gradients and training else ~id(module)
            counted = seen.more_training_calls if seen is not None and gradients and training else None
            rhythm.begin(token, FORWARD, self._again, seen, gradients, training, counted=counted)
        except Exception as error:
            self._recorder.broke("modules", error)
        try:
            return original(module, *arguments, **options)
        finally:
            rhythm.begin(END, current)

    def _noted(
        self, module: Any, arguments: tuple[Any, ...], options: dict[str, Any], gradients: bool, training: bool
    ) -> ModuleSeen | None:
        self._recorder.rhythm.leave()
        seen = self._seen.get(id(module))
        self._forward(seen, gradients, training)
        if seen is None:
            seen = self._first_seen(module)
            if seen is None:
                return None
        elif seen.place is None:
            seen.place = user_place()
        kept = None
        if gradients and training:
            if not seen.training_calls:
                self._begin_stage(seen)
            seen.training_calls += 1
            if seen.arguments is None and seen.training_calls > _KEEP_FROM:
                seen.arguments = kept_arguments(arguments, options)
        if not (gradients and training and self._tracker.is_for_training()) and id(seen) not in self._validations:
            kept = (user_place(), arguments, options)
        if len(self._called) < _MOST_MODULES:
            self._called.append((seen, gradients, training, kept))
        return seen

    def _begin_stage(self, seen: ModuleSeen) -> None:
        stages = self._recorder.evidence.stages
        trained = [(stage.module, stage.module.training_calls) for stage in stages]
        stages.append(StageSeen(seen, self._tracker.stepped, trained))

    def _again(self, seen: ModuleSeen | None, gradients: bool, training: bool) -> None:
        """A call like one that was noted before."""
        self._forward(seen, gradients, training)
        if seen is not None:
            seen.training_calls += gradients and training
            if len(self._called) < _MOST_MODULES:
                self._called.append((seen, gradients, training, None))

    def _forward(self, seen: ModuleSeen | None, gradients: bool, training: bool) -> None:
        tracker = self._tracker
        if tracker.stretch != self._stretch:
            # What was called before belonged to training, or to nothing that has a name.
            self._called.clear()
            self._stretch = tracker.stretch
        tracker.forward(gradients and training, not training and seen is not None and seen.training_calls > 0)
        if tracker.count >= self._narrow_at:
            self._narrow()

    def _first_seen(self, module: Any) -> ModuleSeen | None:
        if id(module) in self._plain:
            return None
        self._outermost.add(type(module))
        if next(module.parameters(), None) is None:
            if len(self._plain) < _MOST_MODULES:
                self._plain[id(module)] = module
            return None
        if len(self._seen) >= _MOST_KEPT:
            return None
        seen = self._seen[id(module)] = ModuleSeen(_unwrapped(module), user_place())
        self._recorder.watched.modules.append(seen)
        return seen

    def _validated(self, milliseconds: float, in_eval_mode: bool) -> None:
        called = [call for call in self._called if not (in_eval_mode and call[2])]
        known: set[int] = set()
        for seen, gradients, training, kept in called:
            found = self._validations.get(id(seen))
            if found is None:
                place, arguments = (kept[0], kept_arguments(*kept[1:])) if kept else (seen.place, seen.arguments)
                found = self._validations[id(seen)] = ValidationSeen(seen.module, place, arguments=arguments)
                self._recorder.evidence.validation.append(found)
            found.calls += 1
            found.milliseconds += milliseconds / len(called)
            # A loader's batch may go through a module several times; within a step there is no loader to tell by.
            if in_eval_mode or id(seen) not in known:
                known.add(id(seen))
                found.batches += 1
                found.with_gradients += gradients
                found.in_train_mode += training
            if training and found.in_train_mode == 1:
                found.layers = layers_in_train_mode(seen.module)
        self._called.clear()


def kept_arguments(arguments: tuple[Any, ...], options: dict[str, Any]) -> Arguments | None:
    """Arguments of a call to keep for replays, cut off from any graph; None if they are large."""
    from torch.utils._pytree import tree_leaves, tree_map

    if sum(leaf.nbytes for leaf in tree_leaves((arguments, options)) if _is_plain(leaf)) > _LARGEST_ARGUMENTS:
        return None
    kept: Arguments = tree_map(lambda leaf: leaf.detach() if _is_plain(leaf) else leaf, (arguments, options))
    return kept


def _is_plain(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided


def _unwrapped(module: Any) -> Any:
    """The user's own module inside what torch.compile or DistributedDataParallel make of it."""
    module = getattr(module, "_orig_mod", module)
    if isinstance(module, nn.parallel.DistributedDataParallel):
        return module.module
    return module


def _optimized_module() -> type:
    from torch._dynamo.eval_frame import OptimizedModule  # imported by torch.compile anyway

    return OptimizedModule
