"""Records two steps operation by operation, and keeps the second to be replayed.

    probe = TapeProbe()
    probe.begin(4, watched); ...the step...; probe.end(4, watched)
    probe.finish(evidence, watched)         # evidence.tape

Two, because what they have in common tells more than one alone: whether shapes vary from step to step, and which
tensors live on between steps, so that mending one of those is paid for once and not at every step.
"""

import functools
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _get_current_dispatch_mode

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.places import place_of, user_frame
from cordwood.doctor.evidence.tape import Tape
from cordwood.doctor.probes.deep.base import DeepProbe, WatchedScript
from cordwood.doctor.probes.deep.dispatch_mode import Line, Taping
from cordwood.doctor.probes.deep.module_paths import ModulePaths
from cordwood.doctor.probes.patches import Patches

STEPS = (4, 7)  # after warm-up; not two in a row, which may differ as the two halves of a pattern do
_FROM_NUMPY = ("from_numpy", "as_tensor", "asarray")


class TapeProbe(DeepProbe):
    """Fills ``evidence.tape``."""

    signal = "tape"
    disturbs = True

    def __init__(self) -> None:
        self._taping: Taping | None = None
        self._patches = Patches()
        self._paths = ModulePaths()
        self._arrays: dict[int, tuple[Line, StorageWeakRef]] = {}  # storages that NumPy's memory was seen in
        self._known: dict[int, StorageWeakRef] = {}  # storages of the leaves of the step watched before
        self._begun = 0
        self._tape: Tape | None = None
        self._why_not = ""

    def wants(self, step: int) -> bool:
        return step in STEPS

    def is_over(self, step: int) -> bool:
        return step > STEPS[-1]

    def begin(self, step: int, watched: WatchedScript) -> None:
        if watched.compiled:
            self._why_not = (
                f"torch.compile is in use ({', '.join(watched.compiled)}): to write operations down one by one "
                f"would change what is compiled"
            )
            return
        if _get_current_dispatch_mode() is not None:
            self._why_not = "the script runs under a dispatch mode of its own"
            return
        self._paths = ModulePaths()
        self._taping = Taping(watched.phase, self._paths.current)
        for name in _FROM_NUMPY:
            self._patches.replace(torch, name, self._noting_arrays(getattr(torch, name)))
        self._paths.begin()
        self._begun = perf_counter_ns()
        self._taping.enter()

    def end(self, step: int, watched: WatchedScript) -> None:
        taping, self._taping = self._taping, None
        if taping is None:
            return
        taping.leave()
        milliseconds = (perf_counter_ns() - self._begun) / 1e6
        self._paths.end()
        self._patches.undo()
        if taping.gave_up:
            self._why_not = taping.gave_up
        elif taping.noted:
            self._tape = self._tape_of(taping, step, milliseconds)
        self._arrays.clear()

    def finish(self, evidence: Evidence, watched: WatchedScript) -> None:
        self.end(-1, watched)  # of a step that raised, or that the script never came back from
        self._known.clear()
        if self._tape is None:
            evidence.missing[self.signal] = self._why_not or f"training ended before step {STEPS[0]}"
        else:
            evidence.tape = self._tape

    def _tape_of(self, taping: Taping, step: int, milliseconds: float) -> Tape:
        places: dict[Line, CodeLine | None] = {None: None}
        for line in [*taping.lines, *(each for each, _ in self._arrays.values())]:
            if line is not None and line not in places:
                places[line] = place_of(*line)
        for op, line, mark in zip(taping.noted, taping.lines, taping.marks, strict=True):
            op.place = places[line]
            op.module = self._paths.name(mark)
        tape = Tape(taping.noted, step, taping.table.leaves, taping.loss, milliseconds)
        tape.classes = {self._paths.name(mark): self._paths.kind(mark) for mark in set(taping.marks) if mark}
        references = {number: (address, weak) for address, (number, weak) in taping.table.storages.items()}
        known: dict[int, StorageWeakRef] = {}
        for leaf in tape.leaves.values():
            address, weak = references[leaf.meta.storage]
            known[address] = weak
            # The reference that was kept keeps this address from being given to other memory. A tensor that a line of
            # the step makes of an array is a new one each time, however old the array: a copy made there is, too.
            leaf.is_kept = address in self._known and address not in self._arrays
            if address in self._arrays:
                leaf.is_numpy = True
                leaf.place = places[self._arrays[address][0]]
        self._known = known
        if self._tape is not None:
            tape.has_constant_shapes = tape.signature() == self._tape.signature()
            tape.earlier_places = frozenset(op.place for op in self._tape.ops if op.place is not None)
        return tape

    def _noting_arrays(self, original: Callable[..., Any]) -> Callable[..., Any]:
        arrays = self._arrays

        @functools.wraps(original)
        def noting(*arguments: Any, **options: Any) -> Any:
            made = original(*arguments, **options)
            source = arguments[0] if arguments else None
            if type(made) is torch.Tensor and hasattr(source, "__array_interface__"):
                frame = user_frame()
                storage = made.untyped_storage()
                arrays[storage._cdata] = (
                    None if frame is None else (frame.f_code, frame.f_lineno),
                    StorageWeakRef(storage),
                )
            return made

        return noting
