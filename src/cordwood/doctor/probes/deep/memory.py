"""Finds tensors that are still alive with their graph at the end of some steps, and what holds them.

    probe = MemoryProbe()
    ...
    probe.finish(evidence, watched)
    evidence.memory.leaks

A tensor that was there ten steps ago and still is, and whose company grows, is kept for good; so is a sum whose graph
grows by the same number of nodes each step. Three looks tell; where something grows, later ones tell whether it is
emptied now and then, as at the end of an epoch. Tensors are remembered weakly: looking keeps nothing alive.
"""

import os
import sys
import weakref
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from cordwood.doctor.code.live_objects import alive
from cordwood.doctor.code.tensor_holders import Holder, find_holders, keeping_place, user_frames
from cordwood.doctor.evidence.evidence import Evidence, MemorySeen, RetainedTensors
from cordwood.doctor.probes.deep.base import DeepProbe, WatchedScript

_LOOKS = (6, 16, 26)
_LATER = (46, 86, 166, 326)
_MOST_OBJECTS = 5_000_000  # of the whole program; more would take too long to go through
_MOST_NODES = 50_000  # of graphs, at each look
# A node without what it saved for the backward pass, and a tensor without its values: what torch allocates for them.
_NODE_BYTES = 400
_TENSOR_BYTES = 600
_CLEAR_BYTES = 500_000  # a step: less may be the allocator's own business


@dataclass
class HeldTensors:
    """Tensors with a graph that one variable, attribute or list holds."""

    holder: Holder
    tensors: int = 0
    nbytes: int = 0
    nodes: int = 0
    elements: int = 1  # of the largest
    was_counted: bool = True  # False: there were more nodes than are counted
    survivors: int = 0  # of the look before
    alive: list["weakref.ref[torch.Tensor]"] = field(default_factory=list)


@dataclass
class MemorySnapshot:
    """What was alive at the end of one step."""

    step: int
    groups: dict[str, HeldTensors]
    resident: int | None  # bytes of the process in memory


class MemoryProbe(DeepProbe):
    """Takes the looks."""

    signal = "memory"
    disturbs = True

    def __init__(self) -> None:
        self._looks: list[MemorySnapshot] = []
        self._later: list[MemorySnapshot] = []
        self._grows = False
        self._is_blind = False  # no function of the user's is known by its source

    def wants(self, step: int) -> bool:
        return step in _LOOKS or (self._grows and step in _LATER)

    def is_over(self, step: int) -> bool:
        return step > (_LATER if self._grows else _LOOKS)[-1]

    def begin(self, step: int, watched: WatchedScript) -> None:
        """Nothing is done before the end of the step."""

    def end(self, step: int, watched: WatchedScript) -> None:
        if watched.thread() is None:
            return  # the run ended within the step
        self._is_blind = next(user_frames(sys._getframe(1)), None) is None
        tensors = _with_graph()
        before = self._looks[-1].groups if self._looks else {}
        groups = _groups(tensors, before)
        look = MemorySnapshot(step, groups, _resident_bytes())
        if step not in _LOOKS:
            self._later.append(look)
            return
        self._looks.append(look)
        if step == _LOOKS[-1] and len(self._looks) > 1:
            self._grows = bool(leaks(self._looks))

    def finish(self, evidence: Evidence, watched: WatchedScript) -> None:
        if self._is_blind:
            evidence.missing[self.signal] = "the script's source cannot be read: who holds which tensors cannot be told"
            return
        if len(self._looks) < 2:
            evidence.missing[self.signal] = f"fewer than {_LOOKS[1] + 1} training steps: memory was not seen twice"
            return
        first, last = self._looks[0], self._looks[-1]
        grown = _steady_growth([look.resident for look in self._looks])
        steps = last.step - first.step
        found = leaks(self._looks)
        for kept in found:
            kept.was_emptied = _fell([last, *self._later], kept.name)
        evidence.memory = MemorySeen(
            steps=steps,
            leaks=found,
            alive=[(group.holder.name, keeping_place(group.holder), group.nbytes) for group in last.groups.values()],
            growth_bytes_a_step=None if grown is None else grown / steps,
            peak_bytes=_peak_bytes(),
        )


def leaks(looks: list[MemorySnapshot]) -> list[RetainedTensors]:
    """What grows from look to look, with the line that keeps it; the largest first."""
    steps = looks[-1].step - looks[0].step
    found = []
    for name, last in looks[-1].groups.items():
        seen = [look.groups.get(name) for look in looks]
        counts = [0 if group is None else group.tensors for group in seen]
        nodes = [0 if group is None else group.nodes for group in seen]
        piles_up = last.survivors > 1 and _grows(counts) and last.survivors >= counts[-2]
        sums_up = len(looks) > 2 and last.was_counted and _grows_evenly(nodes, [look.step for look in looks])
        if not piles_up and not sums_up:
            continue
        place = keeping_place(last.holder)
        # A growing graph alone may be chance; with a line that adds to the variable it is not.
        if not piles_up and place is None:
            continue
        first = seen[0]
        grown_bytes = last.nbytes - (0 if first is None else first.nbytes)
        tensors_a_step = (counts[-1] - counts[0]) / steps
        nodes_a_step = (nodes[-1] - nodes[0]) / steps
        bytes_a_step = max(0, grown_bytes) / steps + nodes_a_step * _NODE_BYTES + tensors_a_step * _TENSOR_BYTES
        found.append(RetainedTensors(name, place, tensors_a_step, bytes_a_step, nodes_a_step, last.elements))
    if found:
        # What graphs saved for a backward pass that never came cannot be counted, but the process grows by it.
        heaviest = max(found, key=lambda kept: kept.nodes_a_step)
        heaviest.bytes_a_step = max(heaviest.bytes_a_step, _clear_growth(looks))
    return sorted(found, key=lambda kept: -kept.bytes_a_step)


def _fell(looks: list[MemorySnapshot], name: str) -> bool:
    """Whether what had grown is less at a later look."""
    groups = [look.groups.get(name) or HeldTensors(looks[0].groups[name].holder) for look in looks]
    return any(later.tensors < before.tensors or later.nodes < before.nodes for before, later in pairwise(groups))


def _grows(counts: list[int]) -> bool:
    return counts[-1] > counts[0] and all(after >= before for before, after in pairwise(counts))


def _grows_evenly(nodes: list[int], steps: list[int]) -> bool:
    """Whether nodes are added at the same rate between all looks, at least one a step."""
    rates = [
        (after - before) / (end - start)
        for before, after, start, end in zip(nodes, nodes[1:], steps, steps[1:], strict=False)
    ]
    return min(rates) >= 1 and max(rates) <= 1.1 * min(rates)


def _with_graph() -> list[torch.Tensor]:
    """All tensors that are alive and hold a graph."""
    # Subclasses are left out, since they may answer with code of their own.
    tensors = alive({torch.Tensor}, _MOST_OBJECTS)
    if tensors is None:
        raise RuntimeError(f"the program has more than {_MOST_OBJECTS:,} objects: going through them takes too long")
    return [tensor for tensor in tensors if _has_graph(tensor)]


def _has_graph(tensor: torch.Tensor) -> bool:
    try:
        return tensor.grad_fn is not None
    except RuntimeError:  # a view whose base was changed in place in a way that autograd refuses
        return False


def _groups(tensors: list[torch.Tensor], before: dict[str, HeldTensors]) -> dict[str, HeldTensors]:
    wanted = {id(tensor): tensor for tensor in tensors}
    holders = find_holders(sys._getframe(1), wanted)
    members: dict[str, list[torch.Tensor]] = defaultdict(list)
    by_name: dict[str, Holder] = {}
    for identity, known in holders.items():
        for holder in known:
            by_name.setdefault(holder.name, holder)
            if by_name[holder.name] == holder:
                members[holder.name].append(wanted[identity])
    groups = {}
    left = _MOST_NODES
    for name, held in members.items():
        nodes, counted = _count_nodes([tensor.grad_fn for tensor in held], left)
        left -= nodes
        old = before.get(name)
        still = set() if old is None else {id(ref()) for ref in old.alive}
        groups[name] = HeldTensors(
            holder=by_name[name],
            tensors=len(held),
            nbytes=_storage_bytes(held),
            nodes=nodes,
            elements=max(tensor.numel() for tensor in held),
            was_counted=counted,
            survivors=sum(id(tensor) in still for tensor in held),
            alive=[weakref.ref(tensor) for tensor in held],
        )
    return groups


def _count_nodes(roots: Iterable[Any], most: int) -> tuple[int, bool]:
    """The nodes of autograd graphs that are reached from some, and whether these are all."""
    seen: set[Any] = set()
    waiting = [root for root in roots if root is not None]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        if len(seen) >= most:
            return len(seen), False
        seen.add(node)
        waiting.extend(after for after, _ in node.next_functions if after is not None)
    return len(seen), True


def _storage_bytes(tensors: list[torch.Tensor]) -> int:
    """The bytes of their storages, shared ones once."""
    sizes = {}
    for tensor in tensors:
        if tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())


def _steady_growth(sizes: list[int | None]) -> int | None:
    """By how much something has grown; 0 if it did not grow every time; None if it cannot be told."""
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    grows = all(after > before for before, after in pairwise(known))
    return known[-1] - known[0] if grows else 0


def _clear_growth(looks: list[MemorySnapshot]) -> float:
    """Bytes a step by which the process grows as something that is kept does: much, and about the same all the time."""
    sizes = [look.resident for look in looks]
    rates = [
        (after - before) / (end.step - start.step)
        for before, after, start, end in zip(sizes, sizes[1:], looks, looks[1:], strict=False)
        if before is not None and after is not None
    ]
    if not rates or min(rates) < _CLEAR_BYTES or max(rates) > 2 * min(rates):
        return 0.0
    return sum(rates) / len(rates)


def _resident_bytes() -> int | None:
    """Of this process, or of the device's allocator where there is one."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.memory_allocated())
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _peak_bytes() -> int | None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated())
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
