"""Finds parameters of an optimizer that never get a gradient, and whether their modules are ever called.

    probe = ParameterProbe()
    ...
    probe.finish(evidence, watched)
    evidence.parameters.never_called

Gradients are looked at when a step ends, and before they are cleared, wherever in a step a script does that. No hooks
are put on optimizers: a step may end inside an optimizer's hooks, where none can be added or taken away.
"""

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from cordwood.doctor.code.parameter_owners import Owner, attribute_place, find_owners
from cordwood.doctor.evidence.evidence import Evidence, ParameterUse
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.probes.deep.base import DeepProbe, WatchedScript
from cordwood.doctor.probes.patches import Patches

_STEPS = range(3, 13)
_FEWEST_STEPS = 8  # of these: an optimizer that came later may train its part later, too


class ParameterProbe(DeepProbe):
    """Watches gradients and modules."""

    signal = "parameters"
    disturbs = False

    def __init__(self) -> None:
        self._patches = Patches()
        self._thread: int | None = None  # None: everything passes through
        self._called: set[torch.nn.Module] = set()
        self._steps: dict[torch.optim.Optimizer, int] = {}
        # By identity; the optimizers hold them, so no other object takes an identity over.
        self._untrained: dict[int, torch.Tensor] = {}
        self._trained: set[int] = set()
        self._is_compiled = False

    def wants(self, step: int) -> bool:
        return step in _STEPS and not self._is_compiled

    def is_over(self, step: int) -> bool:
        return step > _STEPS[-1]

    def begin(self, step: int, watched: WatchedScript) -> None:
        if watched.compiled:
            # A compiled module looks at hooks: new ones would have it compiled anew.
            self._is_compiled = True
            return
        self._thread = watched.thread()
        try:
            self._patches.also(register_module_forward_pre_hook(self._note_call).remove)
            for owner in (torch.optim.Optimizer, torch.nn.Module):
                self._patches.replace(owner, "zero_grad", self._looking_first(owner.zero_grad))
        except BaseException:
            self._patches.undo()
            raise

    def end(self, step: int, watched: WatchedScript) -> None:
        self._patches.undo()
        if self._thread is None:
            return
        self._thread = None
        for optimizer in watched.optimizers:
            self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
            for parameter in _of(optimizer):
                if id(parameter) not in self._trained:
                    self._untrained[id(parameter)] = parameter
        self._note_gradients()

    def finish(self, evidence: Evidence, watched: WatchedScript) -> None:
        if self._is_compiled:
            evidence.missing[self.signal] = "torch.compile is in use: which modules are called cannot be seen inside"
            return
        steady = [optimizer for optimizer, steps in self._steps.items() if steps >= _FEWEST_STEPS]
        if not steady:
            evidence.missing[self.signal] = f"no optimizer was seen for {_FEWEST_STEPS} of {len(_STEPS)} steps"
            return
        held = {id(parameter): parameter for optimizer in steady for parameter in _of(optimizer)}
        if not self._trained & held.keys():
            evidence.missing[self.signal] = "no gradients were seen where steps end or where they are cleared"
            return
        idle = {
            identity: parameter
            for identity, parameter in held.items()
            if identity in self._untrained
            # What was trained later in the run has a gradient now, or left its traces in the optimizer.
            and parameter.grad is None
            and not any(optimizer.state.get(parameter) for optimizer in steady)
        }
        owners = find_owners(idle, [seen.module for seen in watched.modules]) if idle else {}
        never_called = {
            identity: found for identity, found in owners.items() if not any(self._was_called(owner) for owner in found)
        }
        names = {identity: found[0].name for identity, found in owners.items()}
        evidence.parameters = ParameterUse(
            steps=min(self._steps[optimizer] for optimizer in steady),
            without_gradient=list(names.values()),
            never_called=[names[identity] for identity in never_called],
            sizes={name: idle[identity].numel() for identity, name in names.items()},
            total=sum(parameter.numel() for parameter in held.values()),
            places={
                names[identity]: place
                for identity, found in never_called.items()
                if (place := self._made_at(found[0])) is not None
            },
            chosen=[names[identity] for identity, found in never_called.items() if self._has_called_sibling(found[0])],
        )

    def _was_called(self, owner: Owner) -> bool:
        return owner.chain[-1] in self._called

    def _topmost(self, owner: Owner) -> int:
        """How deep in the chain the outermost module lies of which no part was ever called."""
        return next(
            depth
            for depth, module in enumerate(owner.chain)
            if not any(part in self._called for part in module.modules())
        )

    def _made_at(self, owner: Owner) -> CodeLine | None:
        """The line that makes the outermost module of which no part was ever called."""
        for depth in range(self._topmost(owner), 0, -1):
            place = attribute_place(type(owner.chain[depth - 1]), owner.path[depth - 1])
            if place is not None:
                return place
        return None

    def _has_called_sibling(self, owner: Owner) -> bool:
        """Whether the module is one of several in a list, of which others were called: a choice may fall on it yet."""
        depth = self._topmost(owner)
        if depth == 0 or not isinstance(owner.chain[depth - 1], (torch.nn.ModuleList, torch.nn.ModuleDict)):
            return False
        return any(part in self._called for part in owner.chain[depth - 1].modules())

    def _note_call(self, module: torch.nn.Module, args: Any) -> None:
        self._called.add(module)

    def _looking_first(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def zero_grad(*args: Any, **kwargs: Any) -> None:
            if get_ident() == self._thread:
                self._note_gradients()
            original(*args, **kwargs)

        return zero_grad

    def _note_gradients(self) -> None:
        for identity, parameter in list(self._untrained.items()):
            # A frozen one has no gradient by its owner's wish.
            if parameter.grad is not None or not parameter.requires_grad:
                self._trained.add(identity)
                del self._untrained[identity]


def _of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
