"""The layout of ``--help``: lines end between words, whatever the width of the terminal.

::

    usage: cordwood trim [options] FILE [FILE ...]

    examples:
      cordwood trim checkpoints/ -o trimmed/
          the same into another folder

In an epilog, the paragraph that begins with ``examples:`` has a command per line, and what it does two or more spaces
behind it, or below it. An explanation that does not fit beside its command goes below it. A long command continues in
the next line, behind a backslash, as in a shell. All other paragraphs are filled.
"""

import argparse
import re
from collections.abc import Iterable, Iterator
from textwrap import wrap

_EXAMPLES = "examples:"
_LEAST_BESIDE = 30  # columns for explanations beside commands
_BELOW = " " * 10


class HelpFormatter(argparse.HelpFormatter):
    """The formatter of all parsers of the command."""

    def _format_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: object, prefix: str | None
    ) -> str:
        prefix = "usage: " if prefix is None else prefix
        calls = (usage or usage_of(self._prog, actions)).splitlines()
        lines = [line for call in calls for line in _lines(call.strip(), self._width - len(prefix), "  ")]
        return prefix + f"\n{' ' * len(prefix)}".join(lines) + "\n\n"

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _lines(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip("\n").split("\n\n")
        return "\n\n".join("\n".join(indent + line for line in _paragraph(each, width)) for each in paragraphs)


def usage_of(prog: str, actions: Iterable[argparse.Action]) -> str:
    """A call in one line: required options and positional arguments by their names, ``[options]`` for the others."""
    words = [prog, "[options]"]
    behind = []
    for action in actions:
        if not action.option_strings:
            behind.append(positional(action))
        elif action.required:
            words.append(f"{action.option_strings[0]} {value_name(action)}")
    return " ".join([*words, *behind])


def positional(action: argparse.Action) -> str:
    """A positional argument in a usage line: ``FILE [FILE ...]``."""
    name = value_name(action)
    match action.nargs:
        case "+":
            return f"{name} [{name} ...]"
        case "*":
            return f"[{name} ...]"
        case "?":
            return f"[{name}]"
        case argparse.REMAINDER:
            return "..."
        case argparse.PARSER:
            return f"{name} ..."
    return name


def value_name(action: argparse.Action) -> str:
    """What stands for an argument's value: its metavar, its choices, or its own name."""
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper() if action.option_strings else action.dest


def _lines(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of whole words; a longer word has a line of its own."""
    return wrap(text, max(width, 1), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _paragraph(text: str, width: int) -> Iterator[str]:
    head, _, examples = text.partition("\n")
    if head != _EXAMPLES:
        yield from _lines(text, width)
        return
    yield head
    column = max(map(len, re.findall(r"^.*?\S {2,}|^ +", examples, re.MULTILINE)))
    for line in examples.splitlines():
        command, _, explanation = line.strip().partition("  ") if line[2:3] != " " else ("", "", line.strip())
        yield from _example(command, explanation.strip(), column, width)


def _example(command: str, explanation: str, column: int, width: int) -> Iterator[str]:
    """A command and what it does: beside each other if there is room, else one below the other."""
    glued = re.sub(r"(?<= )(-\S+) (?!-)", r"\1\0", command)  # an option's value stays beside it
    parts = _lines(glued, width - 4, "    ")
    parts = [part for long in parts for part in _lines(long.replace("\0", " "), width - 4, "    ")]
    commands = [f"  {part}" for part in parts]
    commands = [*(f"{line} \\" for line in commands[:-1]), *commands[-1:]]
    indent = " " * column if width - column >= _LEAST_BESIDE else _BELOW
    explained = [indent + line for line in _lines(explanation, width - len(indent))]
    if commands and explained and len(commands[-1]) + 2 <= len(indent):
        explained[0] = commands.pop().ljust(len(indent)) + explained[0].lstrip()
    yield from commands
    yield from explained
