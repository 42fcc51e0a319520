"""Compares the size of what ``torch.save`` writes with what the saved object can reach."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any

import torch

from cordwood.doctor.evidence.evidence import SaveCall
from cordwood.doctor.evidence.places import user_place
from cordwood.doctor.probes.patches import Patches
from cordwood.doctor.probes.phases.recorder import Recorder
from cordwood.tensors import inspect

_MOST_LINES = 256
_MOST_LOOKS = 8  # at files of one line; further ones count as these do


class SaveProbe:
    """Counts by line what is saved."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lines: dict[tuple[str, int] | None, SaveCall] = {}

    def install(self, patches: Patches) -> None:
        """Watch torch.save."""
        patches.replace(torch, "save", self._counting(torch.save))

    def _counting(self, original: Callable[..., None]) -> Callable[..., None]:
        recorder = self._recorder

        @functools.wraps(original)
        def save(obj: Any, f: Any, *arguments: Any, **options: Any) -> None:
            if recorder.clock.thread is None:
                return original(obj, f, *arguments, **options)
            start = perf_counter()
            original(obj, f, *arguments, **options)
            seconds = perf_counter() - start
            with recorder.guarded("saves"):
                if isinstance(f, str | os.PathLike):
                    self._count(Path(f), seconds)
            # Looking at the file is no part of the user's step.
            if recorder.clock.is_training_thread():
                with recorder.guarded("steps"):
                    recorder.rhythm.leave()
                recorder.clock.since += perf_counter_ns() - int((start + seconds) * 1e9)
            return None

        return save

    def _count(self, path: Path, seconds: float) -> None:
        place = user_place()
        key = None if place is None else (place.file, place.line)
        call = self._lines.get(key)
        if call is None:
            if len(self._lines) >= _MOST_LINES:
                return
            call = self._lines[key] = SaveCall(place, str(path))
            self._recorder.evidence.saves.append(call)
        call.calls += 1
        call.seconds += seconds
        if call.calls <= _MOST_LOOKS:
            found = inspect(path, check=False)
            call.looked_at += 1
            call.stored_bytes += found.in_memory
            call.wasted_bytes += found.wasted
