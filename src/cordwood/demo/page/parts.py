"""The parts of the page's sections: headings, commands, and tables whose cells are bars."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cordwood.common.html import safe
from cordwood.demo.page.drawing import amount_bar
from cordwood.demo.terminal.text import word


@dataclass(frozen=True)
class Cell:
    """HTML of a cell, what sort it is, and what names it where a narrow page has no head."""

    html: str
    sort: str
    name: str = ""


_OPTION = re.compile(r"(?<= )--?[a-z][a-z-]*")

Line = tuple[Sequence[Cell], str, bool]  # cells, the name of the row, and whether it is Cordwood's


def section(number: str, title: str) -> str:
    """The beginning of a section, which its writer ends."""
    act = f'<span class="act">{safe(number)}.</span> ' if number else ""
    return f"<section>\n<h2>{act}{safe(title)}</h2>\n"


def commands(lines: Sequence[str]) -> str:
    """What is typed in a shell."""
    shown = "\n".join(f'<span class="command">$ {typed(line)}</span>' for line in lines)
    return f'<pre class="commands" tabindex="0" aria-label="commands"><code>{shown}</code></pre>\n'


def typed(line: str) -> str:
    """A command, whose options are not broken behind their hyphens where it goes on in the next line."""
    return _OPTION.sub(r'<span class="option">\g<0></span>', safe(line))


def key(colour: str) -> str:
    """A line's colour beside its name."""
    return f'<span class="key" style="background:{colour}"></span>'


def times(ratio: float) -> str:
    """How many times, with a multiplication sign: 9.7, 571."""
    return (f"{ratio:,.0f}" if ratio >= 99.5 else f"{ratio:.1f}") + "\u00d7"


def bar_cell(share: float, colour: str, told: str, name: str) -> Cell:
    """A bar as long as its share, and its figure."""
    bar = amount_bar(share, colour, told)
    return Cell(f'<div class="cell">{bar}<span class="figure">{safe(told)}</span></div>', "bar", name)


def figure_cell(told: str, name: str) -> Cell:
    """A figure alone."""
    return Cell(safe(told), "number", name)


def answer(yes: bool, name: str) -> Cell:
    """Whether it is as it should be."""
    return Cell(f'<span class="{word(yes)}">{word(yes)}</span>', "answer", name)


def bar_table(label: str, heads: Sequence[str], lines: Sequence[Line]) -> str:
    """Named rows of cells; ours are to be found at a glance."""
    sorts = ["", *(cell.sort for cell in lines[0][0])]
    head = "".join(f'<th scope="col" class="{sort}">{safe(text)}</th>' for text, sort in zip(heads, sorts, strict=True))
    body = "".join(_row(*line) for line in lines)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{safe(label)}">'
        f'<table class="bars"><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'
    )


def _row(cells: Sequence[Cell], name: str, ours: bool) -> str:
    made = "".join(f'<td class="{cell.sort}" data-name="{safe(cell.name)}">{cell.html}</td>' for cell in cells)
    return f'<tr class="{"ours" if ours else "theirs"}"><th scope="row">{safe(name)}</th>{made}</tr>\n'
