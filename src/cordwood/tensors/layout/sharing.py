"""Finds the tensors of a file that have bytes in common.

::

    sharing = Sharing([list(views_of(named.node)) for named in tensors])
    sharing.partners(0)  # the numbers of the tensors that the first one shares bytes with

Overlap is decided by exact bytes. A file can lay very many views over each other; where comparing every pair would take
too long, the members of a group that hangs together by overlaps all count as sharing.
"""

from collections.abc import Iterable
from math import prod

from cordwood.tensors.layout.overlap import Reach, connected, reach_of
from cordwood.tensors.layout.reachable import View

_MOST_PAINTING = 1 << 27  # bytes that are looked at to compare pairs
_MOST_PAIRS = 500_000
_KEPT = 64

Trace = tuple[str, Reach]  # bytes of a storage, by its key


class Sharing:
    """Made once for all tensors of a file."""

    def __init__(self, tensors: Iterable[Iterable[tuple[str, View]]]) -> None:
        self._traces: list[tuple[Trace, ...]] = []  # of each tensor
        self._members: dict[Trace, list[int]] = {}  # who reaches the very same bytes
        self._touching: dict[Trace, list[Trace]] = {}
        self._crowd: dict[Trace, list[Trace]] = {}  # those that are too many to be compared
        self._groups: dict[tuple[Trace, ...], list[int]] = {}
        self._painting, self._pairs = _MOST_PAINTING, _MOST_PAIRS
        for index, views in enumerate(tensors):
            traces: dict[Trace, None] = {}
            for key, view in views:
                reach = reach_of(view.offset, view.itemsize, view.shape, view.strides)
                if reach is not None:
                    traces[key, reach] = None
            self._traces.append(tuple(traces))
            for trace in traces:
                self._members.setdefault(trace, []).append(index)
        by_key: dict[str, list[Reach]] = {}
        for key, reach in self._members:
            by_key.setdefault(key, []).append(reach)
        for key, reaches in by_key.items():
            if len(reaches) > 1:
                self._compare(key, reaches)

    def partners(self, index: int) -> list[int]:
        """The other tensors that this one shares bytes with, in order."""
        return [other for other in self.group(index) if other != index]

    def group(self, index: int) -> list[int]:
        """The tensor itself and its partners, in order; not to be changed."""
        mine = self._traces[index]
        if not mine:
            return [index]
        if len(mine) == 1 and mine[0] not in self._touching and mine[0] not in self._crowd:
            return self._members[mine[0]]
        group = self._groups.get(mine)
        if group is None:
            if len(self._groups) >= _KEPT:
                self._groups.clear()
            found: set[int] = set()
            for trace in mine:
                for other in (trace, *self._touching.get(trace, ()), *self._crowd.get(trace, ())):
                    found.update(self._members[other])
            group = self._groups[mine] = sorted(found)
        return group

    def _compare(self, key: str, reaches: list[Reach]) -> None:
        for cluster in connected(reaches):
            members = sorted(reaches[number] for number in cluster.members)
            if len(members) > 1 and not self._compare_pairs(key, members):
                crowd = [(key, reach) for reach in members]
                self._crowd.update(dict.fromkeys(crowd, crowd))

    def _compare_pairs(self, key: str, members: list[Reach]) -> bool:
        """Notes which of them overlap; False if they are too many for that."""
        for number, first in enumerate(members):
            for second in members[number + 1 :]:
                if second.offset >= first.end:
                    break
                self._pairs -= 1
                if first.dims or second.dims:
                    self._painting -= _effort(first) + _effort(second)
                if self._pairs < 0 or self._painting < 0:
                    return False
                if not (first.dims or second.dims) or len(connected([first, second])) == 1:
                    self._touching.setdefault((key, first), []).append((key, second))
                    self._touching.setdefault((key, second), []).append((key, first))
        return True


def _effort(reach: Reach) -> int:
    return 1000 + reach.run * prod(count for count, _ in reach.dims)
