"""Refuses dict keys that would be dangerous to hash: too deep, too wide, or all with the same hash.

Python hashes nested tuples recursively and without looking at its stack, hashes a long tuple anew whenever it is used,
and compares a new key with every other one of the same hash. Text and bytes are safe: their hashes are remembered, and
salted so that nobody can choose them.
"""

from collections.abc import Iterable
from typing import Any

from cordwood.common.text import RefusedPickle

_DEEPEST = 20
_MOST_ALIKE = 256  # -1 and -2 hash alike, so do tuples of them
_WORK_A_BYTE = 16
_FREE = 1_000_000
_HASHED_BY_VALUE = (1 << 61) - 1  # smaller integers are their own hashes
_SAFE = frozenset((str, bytes, float, bool, type(None)))


class KeyGuard:
    """Watches over the keys of one pickle."""

    def __init__(self, size: int) -> None:
        self._left = _WORK_A_BYTE * size + _FREE
        # By the container's number: the container itself, so that no other one gets its number, and counts of hashes.
        self._met: dict[int, tuple[Any, dict[int, int]]] = {}

    def check(self, keys: Iterable[Any], target: Any = None) -> None:
        """Before keys are put into a dict or set (`target`, unless it is a new one)."""
        counts: dict[int, int] | None = None
        for key in keys:
            kind = type(key)
            if kind in _SAFE or (kind is int and -_HASHED_BY_VALUE < key < _HASHED_BY_VALUE):
                continue
            width = self._measure(key)
            if counts is None:
                counts = {} if target is None else self._met.setdefault(id(target), (target, {}))[1]
            number = hash(key)
            counts[number] = alike = counts.get(number, 0) + 1
            self._spend(width * alike)
            if alike > _MOST_ALIKE:
                raise RefusedPickle(f"more than {_MOST_ALIKE} keys of one hash")

    def _measure(self, key: Any) -> int:
        """How many values must be looked at to hash a key."""
        width = 1
        level = [key]
        for _ in range(_DEEPEST):
            below: list[Any] = []
            for value in level:
                if isinstance(value, tuple | frozenset):
                    self._spend(len(value))
                    width += len(value)
                    below.extend(value)
                elif type(value) is int:
                    width += value.bit_length() >> 6
            if not below:
                return width
            level = below
        raise RefusedPickle(f"a key of tuples nested more than {_DEEPEST} deep")

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise RefusedPickle("keys that are far larger than the pickle that holds them")
