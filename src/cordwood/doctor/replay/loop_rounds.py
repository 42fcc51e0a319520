"""Decides from the recorded operations whether the rounds of a Python loop could run at once.

    rounds_at_once(ops)     # "" if so; else why not

Rounds can be done at once if they read different parts of the same tensors, and if none needs what an earlier one
made, except for adding it up or for joining it. A recurrent cell, a loop over layers, or one over parameters fails.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from cordwood.doctor.evidence.tape import Op, written

FEWEST_ROUNDS = 8
_MOST_OF_THEM = 0.8
# An earlier round's result may be added to, or joined with others: one operation does that for all rounds.
_JOINING = ("aten::add", "aten::cat", "aten::stack")


def rounds_at_once(ops: Sequence[Op]) -> str:
    """Why the rounds that these forward operations come from cannot be done at once; empty if they can."""
    rounds = split_into_rounds(ops)
    if len(rounds) < FEWEST_ROUNDS:
        return f"it has {len(rounds)} rounds"
    if not _work_on_parts_of_one_tensor(rounds):
        return "its rounds do not work on different parts of the same tensor"
    if _need_earlier_ones(rounds):
        return "a round needs what the one before it made"
    return ""


def split_into_rounds(ops: Sequence[Op]) -> list[list[Op]]:
    """The operations by round; none if nothing comes again and again.

    Most operations of a loop come as often as it has rounds, some a few times in each. A round begins with whatever
    the first one began with.
    """
    kinds = _kinds(ops)
    often = Counter(kinds)
    counts = Counter(count for count in often.values() if count >= FEWEST_ROUNDS)
    if not counts:
        return []
    many = max(counts, key=lambda count: (counts[count], -count))
    first = next(kind for kind in kinds if often[kind] >= many)
    in_each = often[first] // many
    rounds: list[list[Op]] = []
    seen = 0
    for op, kind in zip(ops, kinds, strict=True):
        if kind == first:
            if seen % in_each == 0:
                rounds.append([])
            seen += 1
        if rounds:
            rounds[-1].append(op)
    return rounds


def _kinds(ops: Sequence[Op]) -> list[tuple[Any, ...]]:
    """What tells operations apart: name, line, and the memory that they read, where many read the same.

    ``if predicted[i] == labels[i]`` takes an element twice in one line, but once of each tensor.
    """
    told = [(op.name, op.place, op.inputs[0].storage if op.inputs else None) for op in ops]
    often = Counter(told)
    return [kind if often[kind] >= FEWEST_ROUNDS else kind[:2] for kind in told]


def _work_on_parts_of_one_tensor(rounds: list[list[Op]]) -> bool:
    """Whether there is a memory that rounds read at places of their own.

    In a loop inside a loop some read the same place; then what they write must go to places of their own.
    """
    read: dict[int, set[int]] = {}
    stored: dict[int, set[int]] = {}
    for ops in rounds:
        for op in ops:
            changed = written(op)
            for meta in op.inputs:
                places = stored if meta.number in changed else read
                places.setdefault(meta.storage, set()).add(meta.offset)
    most_read = max(map(len, read.values()), default=0)
    most_stored = max(map(len, stored.values()), default=0)
    return most_read >= FEWEST_ROUNDS and max(most_read, most_stored) >= _MOST_OF_THEM * len(rounds)


def _need_earlier_ones(rounds: list[list[Op]]) -> bool:
    made: dict[int, int] = {}  # tensor -> the round that made it
    stored: dict[tuple[int, int], int] = {}  # a place in memory -> the round that wrote it last
    for number, ops in enumerate(rounds):
        for op in ops:
            changed = written(op)
            joins = op.name.startswith(_JOINING)
            for meta in op.inputs:
                here = (meta.storage, meta.offset)
                earlier = made.get(meta.number, number) < number
                # Views of one memory have numbers of their own: what was written is told by where it lies.
                rewritten = stored.get(here, number) < number and _reads(op, meta.number, changed)
                if (earlier or rewritten) and not joins:
                    return True
            for meta in op.outputs:
                made.setdefault(meta.number, number)
                if meta.number in changed:
                    stored[meta.storage, meta.offset] = number
    return False


def _reads(op: Op, number: int, changed: set[int]) -> bool:
    """Whether an operation looks at values: taking a view of them does not, nor does writing over them."""
    is_view = any(meta.storage == op.outputs[0].storage for meta in op.inputs) if op.outputs else False
    return number not in changed and (not is_view or bool(changed))
