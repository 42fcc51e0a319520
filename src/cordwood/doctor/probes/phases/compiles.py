"""Notes uses of ``torch.compile``: the doctor must not be traced, and reports what it cannot see."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from cordwood.doctor.probes.patches import Patches
from cordwood.doctor.probes.phases.recorder import Recorder


class CompileProbe:
    """Notes uses of torch.compile, and tells before anything is traced."""

    def __init__(self, recorder: Recorder, compiling: Callable[[Any], None]) -> None:
        self._recorder = recorder
        self._compiling = compiling

    def install(self, patches: Patches) -> None:
        """Watch torch.compile, which ``Module.compile`` calls, too."""
        patches.replace(torch, "compile", self._noting(torch.compile))

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        recorder = self._recorder

        @functools.wraps(original)
        def compile(model: Any = None, **options: Any) -> Any:
            if model is None:  # used as a decorator with options: the function comes later
                return lambda function: torch.compile(function, **options)
            if recorder.clock.thread is not None:
                with recorder.guarded("compiled"):
                    owner = getattr(model, "__self__", model)
                    name = getattr(owner, "__qualname__", None) or type(owner).__name__
                    recorder.evidence.compiled.append(name)
                    self._compiling(model)
            return original(model, **options)

        return compile
