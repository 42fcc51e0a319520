"""The ``cordwood`` command: each verb parses its arguments, calls the library and prints the result.

How a command runs:

1. ``main``: the words of the command line -> an exit code. Turns on the log (``logs``), and reports output that cannot
   be written (``output``).
2. ``parser`` and ``VERBS`` below: words -> parsed arguments. Suggests what may have been meant for an unknown word.
   ``help_format`` lays out ``--help``.
3. ``verbs``: arguments -> a call of the library -> text or JSON on stdout, and an exit code.
4. An error of the library -> one sentence on stderr (``tracebacks`` shortens what it carries), exit code 2 or 3. Any
   other exception is a bug and keeps its traceback.

Exit codes: 0 fine, 1 findings, 2 wrong use, 3 bad data, 130 interrupted.

Also here: ``report_files`` (the files that ``cordwood doctor`` writes), ``tensor_files`` (finds tensor files for
``inspect`` and ``trim``), ``completing`` (shell completion), ``reference`` (makes docs/cli.md from ``--help``).
Imports the packages below it; used by ``cordwood.__main__``.

Where to add things:

* A verb: ``verbs/<name>.py`` with ``HELP``, ``add_arguments`` and ``run``; its name in ``VERBS`` below;
  ``python -m cordwood.cli.reference docs/cli.md``; tests/cli/verbs/test_<name>.py.
* An option: ``add_arguments`` of its verb, passed to the library in ``run``; then the same page and test. Completion
  reads the parser; a metavar for files or folders is listed in ``completing/words.py``.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Protocol

from cordwood import __version__
from cordwood.cli.logs import VARIABLE, shown_log
from cordwood.cli.output import checked_output, give_up
from cordwood.cli.parser import Parser
from cordwood.cli.tracebacks import notes_of_cause
from cordwood.cli.verbs import bench, completion, demo, doctor, export, inspect, merge, pack, trim, verify
from cordwood.errors import CordwoodError, StorageError, UsageError

WRONG_USE = 2
BAD_DATA = 3
INTERRUPTED = 130  # what a shell reports for a program ended by Ctrl-C


class VerbModule(Protocol):
    """What a module of ``verbs`` must have to be a verb."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the verb's own arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work and return the exit code."""


VERBS: dict[str, VerbModule] = {
    "bench": bench,
    "completion": completion,
    "demo": demo,
    "doctor": doctor,
    "export": export,
    "inspect": inspect,
    "merge": merge,
    "pack": pack,
    "trim": trim,
    "verify": verify,
}


_EPILOG = f"""\
examples:
  cordwood inspect checkpoint.pt                   what is in it, what is shared, what is waste
  cordwood trim checkpoint.pt -o small.pt          the same without the waste
  cordwood pack photos/ train.cordwood --transform mypkg.prep:prepare
                                                   preprocess once, keep it compressed
  cordwood doctor train.py                         why is this slow, and what would help?
  cordwood pack --help                             every verb has examples

Exit codes: 0 fine, 1 findings, 2 wrong use, 3 bad data, 130 interrupted.

Colours in the doctor's report (nothing else has colours): NO_COLOR=1 turns them off, FORCE_COLOR=1 on.
{VARIABLE}=info or debug logs more.

A verb that makes one thing of one other takes both as words (pack SOURCE DEST, export STORE OUT); all others write to
-o/--output. An option that writes something more is named after it (verify --salvage OUT, doctor --html FILE). --json
prints one JSON document in place of text; stdout of the doctor belongs to the script, so there it takes the name of a
file, and bench prints its tables, too, and takes one.
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command, with one subparser a verb."""
    parser = Parser(
        prog="cordwood",
        description="Keep tensors in fewer bytes, get them back bit for bit, and find out why training is slow.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"cordwood {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb", prog=parser.prog)
    for name, verb in VERBS.items():
        subparser = verbs.add_parser(name, help=verb.HELP, description=f"{verb.HELP[0].upper()}{verb.HELP[1:]}.")
        verb.add_arguments(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the given words (those of the process by default) and return its exit code."""
    try:
        with checked_output():
            return _run(argv)
    except CordwoodError as error:
        _tell(_sentence(error), error)
        return WRONG_USE if isinstance(error, UsageError) else BAD_DATA
    except BrokenPipeError:  # who read our output has seen enough
        give_up()
        return 0
    except KeyboardInterrupt as error:
        _tell("interrupted", error)
        return INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if arguments.verb is None:
        parser.print_help()
        return 0
    with shown_log():
        return VERBS[arguments.verb].run(arguments)


def _sentence(error: CordwoodError) -> str:
    """What the error says; of the system's errors the file and the words, without the number and the brackets."""
    if isinstance(error, StorageError) and error.strerror and error.filename:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def _tell(what: str, error: BaseException) -> None:
    """What went wrong, below what is noted of its cause, and what the library has noted beside it."""
    lines = [*notes_of_cause(error.__cause__), f"cordwood: {what}", *getattr(error, "__notes__", ())]
    print("\n".join(lines), file=sys.stderr)
