"""Sizes, names and values as short text for people.

    human(198_600_000)          # "198.6 MB"
    counted(2000, "shard")      # "2,000 shards"
    brief(value)                # a value from a file, in a few dozen characters

Values from a file are never formatted as they are: a few bytes of a pickle can make a tuple whose ``repr`` has billions
of characters, or an integer that cannot be printed at all.
"""

from typing import Any

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def human(nbytes: int) -> str:
    """A size in thousands: ``"198.6 MB"``."""
    if nbytes < 1000:
        return f"{nbytes} B"
    size = float(nbytes)
    for unit in _UNITS:
        # Below what would be shown as 1000.0.
        if size < 999.95 or unit == _UNITS[-1]:
            return f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError(nbytes)


def printable(text: str) -> str:
    """Text from a file without what a terminal would obey: control characters, escapes, direction marks."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str, width: int) -> str:
    """Text that fits, with its middle left out if it must be: names differ at their ends."""
    if len(text) <= width:
        return text
    tail = (width - 3) * 2 // 3
    return f"{text[: width - 3 - tail]}...{text[len(text) - tail :]}"


def counted(number: int, word: str) -> str:
    """A number of things: ``1 shard``, ``2,000 shards``."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def change(before: int, after: int) -> str:
    """What became of a size: ``"800.6 MB -> 6.3 MB (99.2% smaller)"``."""
    if after == before:
        return f"{human(before)}, as before"
    word = "smaller" if after < before else "larger"
    return f"{human(before)} -> {human(after)} ({100 * abs(before - after) / max(before, 1):.1f}% {word})"


_LONGEST_TEXT = 60
_MOST_ITEMS = 6
_MOST_BITS = 256
_LONGEST_REASON = 200


class RefusedPickle(ValueError):  # noqa: N818 - never leaves the package: it becomes a FormatError with the file's name
    """The file asks for something that cannot be."""


def brief(value: Any, depth: int = 2) -> str:
    """A value in some dozens of characters."""
    kind = type(value)
    if value is None or kind in (bool, float):
        return repr(value)
    if kind is int:
        return str(value) if value.bit_length() <= _MOST_BITS else f"an integer of {value.bit_length()} bits"
    if kind in (str, bytes):
        return repr(value) if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]!r}..."
    if not depth or not isinstance(value, tuple | list):
        # What it holds may be itself.
        return f"a {kind.__name__} of {len(value)}" if kind in (dict, set, list, tuple) else f"a {kind.__name__}"
    shown = ", ".join(brief(item, depth - 1) for item in value[:_MOST_ITEMS])
    if len(value) > _MOST_ITEMS:
        shown += f", ... {len(value)} in all"
    return f"[{shown}]" if isinstance(value, list) else f"({shown},)" if len(value) == 1 else f"({shown})"


def reason_of(error: BaseException) -> str:
    """The first line of an error, if it is made of text: others format what they hold."""
    text = error.args[0] if error.args and type(error.args[0]) is str else ""
    line = text[:_LONGEST_REASON].partition("\n")[0]
    return line if line else type(error).__name__
