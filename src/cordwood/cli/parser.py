"""The command's parser: argparse that suggests what may have been meant for an unknown word.

::

    cordwood pack: error: unknown option --goall; did you mean --goal?
    see cordwood pack --help
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from cordwood.cli.help_format import HelpFormatter
from cordwood.common.arguments import RENAMED
from cordwood.common.suggest import did_you_mean, nearest

# What people call a verb elsewhere -> what it is here.
_OTHER_WORDS = {
    "check": "verify",
    "clean": "trim",
    "compare": "doctor compare",
    "concat": "merge",
    "convert": "pack",
    "create": "pack",
    "diagnose": "doctor",
    "fsck": "verify",
    "help": "--help",
    "info": "inspect",
    "join": "merge",
    "list": "inspect",
    "ls": "inspect",
    "profile": "doctor",
    "repair": "verify --salvage",
    "salvage": "verify --salvage",
    "show": "inspect",
    "shrink": "trim",
    "unpack": "export",
    "version": "--version",
}


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that helps with typos, and takes options by their whole names only."""

    _words: Sequence[str] = ()

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=HelpFormatter, allow_abbrev=False, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As the parent does; but what is not known is an error of this very parser, with its own usage."""
        self._words = sys.argv[1:] if args is None else list(args)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Print the message, with what may have been meant, and where to read more."""
        found = {option: self._meant(option) for option in self._unknown_options()}
        # Whatever argparse complains of, it may be a consequence of an option that is mistyped.
        mistyped = [f"unknown option {option}; did you mean {known}?" for option, known in found.items() if known]
        self.exit(2, f"{self.prog}: error: {' '.join(mistyped) or message}\nsee {self.prog} --help\n")

    def _meant(self, option: str) -> str | None:
        """The new name of a renamed option, or else the one that it is most like."""
        renamed = "--" + RENAMED.get(option[2:].replace("-", "_"), "").replace("_", "-")
        return renamed if renamed in self._option_string_actions else nearest(option, self._option_string_actions)

    def _unknown_options(self) -> Iterator[str]:
        """Words that look like long options of this parser and are none."""
        # Behind a verb, or the name of a script, all words are somebody else's.
        ends_early = any(action.nargs in (argparse.PARSER, argparse.REMAINDER) for action in self._actions)
        is_value = False
        for word in self._words:
            if is_value:
                is_value = False
            elif word == "--" or (ends_early and not word.startswith("-")):
                return
            elif word.startswith("--"):
                option, equals, _ = word.partition("=")
                action = self._option_string_actions.get(option)
                is_value = action is not None and action.nargs is None and not equals
                if action is None:
                    yield option

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        names = list(action.choices)
        if isinstance(action, argparse._SubParsersAction):
            other = _OTHER_WORDS.get(value)
            if other is None and not nearest(value, names):
                other = _OTHER_WORDS.get(nearest(value, _OTHER_WORDS) or "")
            meant = f"; did you mean {other!r}?" if other is not None else did_you_mean(value, names)
            self.error(f"there is no verb {value!r}{meant or ': there are ' + ', '.join(names)}")
        listed = ", ".join(map(repr, names))
        raise argparse.ArgumentError(
            action, f"invalid choice: {value!r} (choose from {listed}){did_you_mean(value, names)}"
        )
