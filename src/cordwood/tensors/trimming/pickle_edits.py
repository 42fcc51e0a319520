"""Changes a few numbers in a pickle, and leaves all other bytes as they are."""

import bisect
from collections.abc import Sequence

from cordwood.tensors.unpickle.machine import Machine

_INTEGERS = b"KMJ\x8a"
# Bytes of the opcodes that numbers, texts and tuples of them are written with, and of their arguments.
_WIDTHS = {
    ord(name): width for name, width in zip("KMJqrhj(t\x85\x86\x87)\x94", (2, 3, 5, 2, 5, 2, 5, *[1] * 7), strict=True)
}
_LENGTHS = {ord("\x8a"): 1, ord("\x8c"): 1, ord("U"): 1, ord("X"): 4, ord("T"): 4}  # of the length before the bytes


class Edits:
    """Replacements in one pickle: each a stretch of its bytes and what comes in its place."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._data = machine.data
        self._put_positions = [position for position, _ in machine.puts]
        self._gets: dict[int, list[int]] = {}
        for position, index in machine.gets:
            self._gets.setdefault(index, []).append(position)
        self._changes: dict[tuple[int, int], bytes] = {}

    def is_integer(self, start: int, end: int) -> bool:
        """Whether a stretch is one integer and nothing else."""
        if start >= end or self._data[start] not in _INTEGERS:
            return False
        return self._behind(start) == end

    def _behind(self, position: int) -> int | None:
        """Where the next opcode starts, if this one is known to do nothing but to write a value."""
        opcode = self._data[position]
        if opcode in _LENGTHS:
            begin = position + 1 + _LENGTHS[opcode]
            return begin + int.from_bytes(self._data[position + 1 : begin], "little")
        width = _WIDTHS.get(opcode)
        return None if width is None else position + width

    def can_replace(self, start: int, end: int) -> bool:
        """Whether a stretch writes a plain value and does nothing else; if it is in the memo, nothing else uses it."""
        position: int | None = start
        while position is not None and position < end:
            position = self._behind(position)
        if position != end or start == end:
            return False
        first = bisect.bisect_left(self._put_positions, start)
        last = bisect.bisect_left(self._put_positions, end)
        if first == last:
            return True
        if last - first > 1:
            return False
        position, index = self._machine.puts[first]
        if position + self._put_width(position) != end:
            return False
        return all(start <= used < end for used in self._gets.get(index, ()))

    def _put_width(self, position: int) -> int:
        return {ord("q"): 2, ord("r"): 5}.get(self._data[position], 1)

    def replace(self, start: int, end: int, code: bytes) -> None:
        """Put other opcodes there; a value that was put into the memo still is, so that the numbering stays."""
        first = bisect.bisect_left(self._put_positions, start)
        last = bisect.bisect_left(self._put_positions, end)
        kept = self._data[self._put_positions[first] : end] if first < last else b""
        self._changes[start, end] = code + kept

    def insert(self, position: int, code: bytes) -> None:
        """Put opcodes in between."""
        self._changes[position, position] = self._changes.get((position, position), b"") + code

    def delete(self, start: int, end: int) -> None:
        """Leave opcodes out."""
        self._changes[start, end] = b""

    def apply(self) -> bytes:
        """The new pickle, from its first opcode to its last."""
        start = self._machine.first
        pieces: list[bytes] = []
        for begin, end in sorted(self._changes):
            if begin < start:
                raise ValueError(f"two changes at byte {begin} of the pickle")
            pieces += (self._data[start:begin], self._changes[begin, end])
            start = end
        pieces.append(self._data[start : self._machine.position])
        return b"".join(pieces)


def without_frames(machine: Machine) -> bytes:
    """The pickle without its frames: they tell lengths, which change, and are a hint that readers do without.

    One may begin anywhere, also in the middle of a tuple that is to be replaced.
    """
    start = machine.first
    pieces = []
    for position in machine.frames:
        pieces.append(machine.data[start:position])
        start = position + 9
    return b"".join((*pieces, machine.data[start : machine.position]))


def span(starts: Sequence[int], index: int) -> tuple[int, int]:
    """Where item `index` of a tuple was written."""
    return starts[index], starts[index + 1]
