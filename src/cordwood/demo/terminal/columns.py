"""Text that fits a terminal of 80 columns, the width that a new window has: paragraphs, tables, and folded lines.

    table(("way", "bytes"), [("a file", "1,234")])
    paragraph("A note that goes on and on ...", margin="  ")
    folded("bytes out  9.5 MB  1 shard, 10.2x smaller than the values")

Only what somebody copies, a path, a command or a line of code, may be longer: broken, it would be of no use.
"""

import shlex
import textwrap
from collections.abc import Collection, Sequence

from cordwood.common import tables

WIDTH = 80
MARGIN = "  "


def paragraph(text: str, margin: str = MARGIN) -> list[str]:
    """Lines of whole words, all behind the same margin."""
    return _lines(text, margin, margin)


def noted(title: str, note: str) -> list[str]:
    """What a word of a table means; where that goes on, a little to the right, so that the next word is found."""
    return _lines(f"{title}: {note}", MARGIN, MARGIN * 2)


def folded(line: str) -> list[str]:
    """A line behind the margin; what is too long goes on below the beginning of its last cell."""
    return indented(tables.fold(line, WIDTH - len(MARGIN)))


def table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], left: Collection[int] = (0,)) -> list[str]:
    """Headings, a rule, and the rows: names to the left, figures to the right."""
    right = {column for column in range(len(headings)) if column not in left}
    return indented([*tables.table([headings, *rows], WIDTH, (), right)])


def command_lines(command: str) -> list[str]:
    """A command as a shell takes it, in several lines where it is long: each of those begins with an option."""
    parts: list[list[str]] = []
    for word in shlex.split(command):
        if not parts or word.startswith("--"):
            parts.append([])
        parts[-1].append(word)
    lines: list[str] = []
    for part in map(shlex.join, parts):
        if lines and len(f"{MARGIN}{lines[-1]} {part} \\") <= WIDTH:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}" if lines else f"$ {part}")
    return indented([*(f"{line} \\" for line in lines[:-1]), *lines[-1:]])


def indented(lines: Sequence[str]) -> list[str]:
    """Behind the margin; empty ones stay empty."""
    return [f"{MARGIN}{line}".rstrip() for line in lines]


def _lines(text: str, first: str, others: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
