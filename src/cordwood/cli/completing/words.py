"""The words of the command for completion: verbs, their options, and what each of them takes.

::

    for verb in words_of(build_parser()):
        print(verb.name, [option.flags for option in verb.options])
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

# By its metavar an argument tells what it is: these are paths, those of FOLDERS of folders only.
FOLDERS = frozenset(("DIR", "STORE"))
FILES = frozenset(("FILE", "OUT", "SOURCE", "DEST"))
_FIRST_WORDS = {"doctor": ("compare",)}  # that may stand where the name of a script is expected
_SUFFIX_BEHIND = {("doctor", "compare"): ".json"}


@dataclass(frozen=True)
class Value:
    """What may stand somewhere: some words, a path, or (with neither) something that nobody can foresee."""

    name: str
    words: tuple[str, ...] = ()
    files: bool = False
    folders: bool = False
    suffix: str = ""  # of the files, if only some will do


@dataclass(frozen=True)
class Option:
    """An option: all its spellings, what its help says, and what it takes, if anything."""

    flags: tuple[str, ...]
    help: str
    value: Value | None


@dataclass(frozen=True)
class VerbWords:
    """A verb (the command itself has no name), its options, and what else it takes, in order.

    The last of `values` `repeats`; if `ends_options`, what follows the first is not for this command to complete, but
    for `behind` some first words, of which it is known what follows, again and again.
    """

    name: str
    help: str
    options: tuple[Option, ...]
    values: tuple[Value, ...]
    repeats: bool = False
    ends_options: bool = False
    behind: tuple[tuple[str, Value], ...] = ()


def words_of(parser: argparse.ArgumentParser) -> list[VerbWords]:
    """The command itself, and all its verbs."""
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in verbs._choices_actions}
    own = VerbWords("", "", tuple(_options(parser)), (Value("VERB", words=tuple(verbs.choices)),), ends_options=True)
    return [own, *(_verb(name, helps[name], subparser) for name, subparser in verbs.choices.items())]


def _verb(name: str, said: str, parser: argparse.ArgumentParser) -> VerbWords:
    positionals = parser._get_positional_actions()
    last = positionals[-1].nargs if positionals else None
    return VerbWords(
        name,
        said,
        tuple(_options(parser)),
        tuple(_value(action, _FIRST_WORDS.get(name, ())) for action in positionals),
        repeats=last in (argparse.ONE_OR_MORE, argparse.ZERO_OR_MORE, argparse.REMAINDER),
        ends_options=last == argparse.REMAINDER,
        behind=tuple(_behind(name, positionals)),
    )


def _behind(name: str, positionals: list[argparse.Action]) -> Iterator[tuple[str, Value]]:
    for (verb, word), suffix in _SUFFIX_BEHIND.items():
        if verb == name:
            yield word, Value("FILE", files=True, suffix=suffix)
    if name == "bench":  # a check is one of other suites
        suites = tuple(map(str, positionals[0].choices or ()))
        yield "check", Value("SUITE", words=tuple(suite for suite in suites if suite != "check"))


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    formatter = parser._get_formatter()
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            takes = None if action.nargs == 0 else _value(action, ())
            yield Option(tuple(action.option_strings), formatter._expand_help(action), takes)


def _value(action: argparse.Action, words: tuple[str, ...]) -> Value:
    if action.choices is not None:
        return Value(action.dest, words=tuple(map(str, action.choices)))
    name = action.metavar if isinstance(action.metavar, str) else action.dest
    files = name in FILES or action.nargs == argparse.REMAINDER
    return Value(name, words, files, folders=name in FOLDERS)
