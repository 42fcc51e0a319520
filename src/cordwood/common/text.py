"""Sizes and names as people read them."""

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
