"""What `--help` says of every argument, and how it is laid out on narrow terminals."""

import argparse
import re
from collections.abc import Iterator

import pytest

from cordwood import cli
from cordwood.cli.parser import Parser
from cordwood.cli.verbs import doctor_compare
from cordwood.sources import MAX_PIXELS
from cordwood.sources.registry import BUILT_IN


def parsers() -> dict[str, argparse.ArgumentParser]:
    command = cli.build_parser()
    (verbs,) = (action for action in command._actions if isinstance(action, argparse._SubParsersAction))
    return {"": command, **verbs.choices, "doctor compare": doctor_compare._parser()}


def arguments() -> Iterator[tuple[str, argparse.Action, str]]:
    """Each argument of each verb: its name, itself, and its help as it is printed."""
    for verb, parser in parsers().items():
        formatter = parser._get_formatter()
        for action in parser._actions:
            if action.help != argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction):
                name = (action.option_strings or [action.dest])[-1]
                yield f"{verb} {name}".strip(), action, formatter._expand_help(action)


ARGUMENTS = {name: (action, said) for name, action, said in arguments()}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_help_is_a_phrase_with_choices_and_default(name: str) -> None:
    action, said = ARGUMENTS[name]
    assert re.match(r"[a-z]", said), "a phrase begins in lower case"
    assert not said.endswith("."), "and ends without a period"
    assert len(re.findall(r"\w+", said.partition("(default")[0])) >= 3
    assert [choice for choice in action.choices or () if not re.search(rf"\b{choice}\b", said)] == []
    if action.option_strings and action.nargs != 0 and action.default is not None:
        shown = f"{action.default:g}" if isinstance(action.default, float) else str(action.default)
        assert said.endswith(f"(default: {shown})")


def test_the_default_of_max_pixels_is_that_of_the_library() -> None:
    assert ARGUMENTS["pack --max-pixels"][1].endswith(f"(default: {MAX_PIXELS})")


def test_every_kind_of_source_is_listed() -> None:
    said = ARGUMENTS["pack --from"][1]
    assert said.startswith(f"kind of SOURCE: {', '.join(source.kind for source in BUILT_IN)}, or that of a plug-in")


def test_the_top_page_names_the_words_of_a_verb_as_its_own_page_does() -> None:
    for verb in ("pack", "export"):
        words = " ".join(str(action.metavar) for action in parsers()[verb]._get_positional_actions())
        assert f"{verb} {words}" in " ".join(parsers()[""].format_help().split())


def test_the_output_has_one_name_and_json_one_meaning() -> None:
    outputs = {name: action.option_strings for name, (action, _) in ARGUMENTS.items() if "-o" in action.option_strings}
    assert outputs == {f"{verb} --output": ["-o", "--output"] for verb in ("demo", "merge", "trim")}
    flags = {said for action, said in ARGUMENTS.values() if "--json" in action.option_strings and action.nargs == 0}
    assert flags == {"print one JSON document in place of text"}
    taking = [name for name, (action, _) in ARGUMENTS.items() if name.endswith(" --json") and action.nargs is None]
    assert taking == ["doctor --json"]
    assert "stdout belongs to the script" in ARGUMENTS["doctor --json"][1]


def shown(parser: argparse.ArgumentParser, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    return parser.format_help()


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
@pytest.mark.parametrize("verb", [*parsers()])
def test_lines_end_between_words(verb: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parser = parsers()[verb]
    text = shown(parser, columns, monkeypatch)
    # A path in an example may be longer than a line: it stands alone in its own.
    assert [
        line for line in text.splitlines() if len(line) > columns and len(line.removesuffix(" \\").split()) > 1
    ] == []
    words = shown(parser, 10_000, monkeypatch).split()
    assert [word for word in text.split() if word != "\\"] == words


def test_an_example_stays_a_command_of_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    epilog = "examples:\n  cordwood pack photos/ out.cordwood --goal small     as small as it can be\n\nThat was it."
    parser = Parser(prog="cordwood pack", epilog=epilog)
    narrow, wide = (shown(parser, columns, monkeypatch).partition("examples:\n")[2] for columns in (40, 80))
    assert narrow == (
        "  cordwood pack photos/ out.cordwood \\\n      --goal small\n          as small as it can be\n\nThat was it.\n"
    )
    assert wide.startswith("  cordwood pack photos/ out.cordwood --goal small\n          as small as it can be\n")
