"""The range of inputs of one part of a job: ``"3/16"`` is the third of sixteen.

    bounds((3, 16), inputs=1000, batch=1)       # (125, 187)

Parts are ranges that follow each other, so that their stores, merged in order, hold what one run would have packed.
"""

from typing import Any

from cordwood.errors import UsageError

Part = tuple[int, int]


def parsed_part(part: Any) -> Part | None:
    """A part as a caller names it, by a text or two numbers, counted from 1."""
    if part is None:
        return None
    words = part.split("/") if isinstance(part, str) else part
    try:
        number, of = (int(word) for word in words)
    except (TypeError, ValueError):
        raise UsageError(f"part is {part!r}, but is like '3/16', the third of sixteen") from None
    if not 1 <= number <= of:
        raise UsageError(f"part is {part!r}, but parts are counted from 1 to their number: '1/16' to '16/16'")
    return number, of


def bounds(part: Part | None, inputs: int | None, batch: int) -> tuple[int, int | None]:
    """The first input of a part, and the one behind its last, None being the end; units of `batch` are not cut."""
    if part is None:
        return 0, None  # not `inputs`: an iterable may be longer than it says
    if inputs is None:
        raise UsageError(
            "part needs a source that knows how many inputs it has, and this one does not tell before its end: give "
            "every part a source of its own, and merge the stores"
        )
    number, of = part
    units = -(-inputs // batch)
    first, last = (number - 1) * units // of, number * units // of
    return min(first * batch, inputs), min(last * batch, inputs)
