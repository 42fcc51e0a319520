"""Makes docs/cli.md, the page of every verb and option, from what ``--help`` says.

    python -m cordwood.cli.reference docs/cli.md

A test compares the page with this, so that neither can change alone.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cordwood.cli import build_parser
from cordwood.cli.help_format import positional, usage_of, value_name
from cordwood.cli.logs import VARIABLE

_MADE = "<!-- Made by `python -m cordwood.cli.reference docs/cli.md` from the command's own help: change it there. -->"
_HEAD = """\
# The command

{description} What `pack`, `inspect`, `verify`, `export`, `merge`, `trim` and `doctor` do, functions of the library do \
too. `cordwood VERB --help` prints what is here; `python -m cordwood` is the same command.
"""
_CODES = """\
## Where results go

A verb that makes one thing of one other takes both as words, the source first: `pack SOURCE DEST`, `export STORE \
OUT`. All other verbs write to `-o`, `--output`. An option that writes something more is named after it: `verify \
--salvage OUT`, `doctor --html FILE`. Options have no abbreviations.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | fine |
| 1 | done, and something was found: damage, failed inputs, advice of the doctor |
| 2 | wrong use: a word, option or file that cannot be meant |
| 3 | bad data: bytes that are not what they should be, or a disk that said no |
| 130 | ended by Ctrl-C |

Results go to stdout, progress and errors to stderr, but for `doctor`, whose stdout is the script's. What went wrong \
is stated in one sentence that begins with `cordwood:`; an error in the command line itself names the verb, and adds \
`see cordwood VERB --help`. `--json` prints one JSON document in place of text; two verbs take \
a file instead: `doctor --json FILE`, because its stdout belongs to the script, and `bench SUITE --json FILE`, which \
prints its tables, too. Progress is a bar on a terminal, and plain lines elsewhere. Nothing is sent anywhere: there is \
no telemetry.

## Variables

| variable | |
| --- | --- |
| `NO_COLOR` | with any value, no colours in the doctor's report; other tables have none |
| `FORCE_COLOR` | with any value, colours in that report also where there is no terminal |
| `COLUMNS` | the width of help and tables; without it that of the terminal, or 100 in a file or a pipe |
| `{variable}` | `info` or `debug` tells more than warnings; in Python it is `logging`, under the name `cordwood` |
"""


def page() -> str:
    """The whole page."""
    parser = build_parser()
    verbs = _verbs(parser)
    index = ["| verb | what it does |", "| --- | --- |"]
    index += [f"| [`{name}`](#cordwood-{name}) | {_cell(verb.description or '')} |" for name, verb in verbs.items()]
    own = [action for action in parser._actions if action.option_strings]
    parts = [
        _MADE,
        _HEAD.format(description=parser.description).strip(),
        "\n".join(index),
        "\n".join(_table("option", own)),
        *(part for part in _epilog(parser.epilog or "") if part.startswith("```")),
        _CODES.replace("{variable}", VARIABLE).strip(),
        *(_verb(name, verb) for name, verb in verbs.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    [verbs] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(verbs.choices)


def _verb(name: str, parser: argparse.ArgumentParser) -> str:
    parts = [f"## cordwood {name}", parser.description or "", f"```text\n{_usage(parser)}\n```"]
    for group in parser._action_groups:
        shown = [
            action
            for action in group._group_actions
            if action.help is not argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)
        ]
        if shown:
            parts.append("\n".join(_table(_group_title(group.title), shown)))
    parts += _epilog(parser.epilog or "")
    return "\n\n".join(part for part in parts if part)


def _group_title(title: str | None) -> str:
    return {"positional arguments": "argument", "options": "option"}.get(title or "options", title or "option")


def _usage(parser: argparse.ArgumentParser) -> str:
    """How the verb is called, whatever the width of the terminal that this runs in."""
    if parser.usage:
        return "\n".join(line.removeprefix("       ") for line in parser.usage.splitlines())
    return usage_of(parser.prog, parser._actions)


def _table(title: str, actions: Sequence[argparse.Action]) -> list[str]:
    rows = [f"| {title} | |", "| --- | --- |"]
    for action in actions:
        if action.option_strings:
            value = "" if action.nargs == 0 else f" {value_name(action)}"
            told = ", ".join(f"`{option}{value}`" for option in action.option_strings)
        else:
            told = f"`{positional(action)}`"
        meaning = argparse.HelpFormatter("cordwood")._expand_help(action) if action.help else ""
        rows.append(f"| {_cell(told)} | {_cell(meaning)} |")
    return rows


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _epilog(epilog: str) -> Iterator[str]:
    """Examples as they are printed; paragraphs as paragraphs."""
    for paragraph in epilog.strip("\n").split("\n\n"):
        head, _, examples = paragraph.partition("\n")
        if head == "examples:":
            yield f"```text\n{_flush_left(examples)}\n```"
        elif paragraph.strip():
            yield " ".join(paragraph.split())


def _flush_left(examples: str) -> str:
    lines = examples.splitlines()
    margin = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[margin:].rstrip() for line in lines)


def main(words: Sequence[str]) -> int:
    """The command."""
    if len(words) != 1 or words[0].startswith("-"):
        print("usage: python -m cordwood.cli.reference FILE", file=sys.stderr)
        return 2
    Path(words[0]).write_text(page(), encoding="utf-8")
    print(f"written: {words[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
