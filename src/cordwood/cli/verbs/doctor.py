"""``cordwood doctor``: runs a training script unchanged, and reports where its time goes and what to change."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from cordwood.cli.output import plain_output, print_as_shown, wants_colour
from cordwood.cli.report_files import (
    CONTENTS,
    are_nobodys,
    are_unmet,
    changed_at,
    check_outputs,
    misplaced,
    of_rank,
    save,
    tell_of_misplaced,
)
from cordwood.cli.verbs import doctor_compare
from cordwood.common.progress_line import ProgressLine
from cordwood.common.suggest import did_you_mean, did_you_mean_path
from cordwood.common.tables import terminal_width
from cordwood.errors import UsageError

if TYPE_CHECKING:
    from cordwood.doctor import Report

HELP = "run a training script unchanged, and tell where its time goes and what to change"
_USAGE = """\
cordwood doctor [options] train.py [argument of the script ...]
       cordwood doctor [options] -m package.train [argument of the script ...]
       cordwood doctor compare before.json after.json"""
_EXAMPLES = """\
examples:
  cordwood doctor train.py --epochs 1   what follows the script's name is the script's own
  cordwood doctor --steps 50 train.py   detach after 50 steps; the script goes on at full speed
  cordwood doctor --json report.json --html report.html -m pkg.train
  cordwood doctor compare before.json after.json
                                        did it get better? (a script with that name: ./compare)

The report goes to stderr: stdout is the script's. Exit code: the script's own if that is not 0; else 1 if something
is worth changing; else 0. compare: 1 if training got slower beyond the noise; 2: wrong use; 3: a bad report.
"""
_BAD_DATA = 3
_SECONDS = 20.0
_INTERRUPTED = 130  # by Ctrl-C, as shells have it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood doctor`` takes."""
    parser.usage = _USAGE
    parser.epilog = _EXAMPLES
    parser.add_argument("--steps", type=int, metavar="N", help="watch the first N training steps only (default: all)")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the report to FILE as JSON, for compare and for tools; other verbs print their JSON, but stdout "
        "belongs to the script here",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write the report to FILE as a page that needs no network"
    )
    parser.add_argument(
        "--pstats", type=Path, metavar="FILE", help="write the sampled profile to FILE, for pstats or snakeviz"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=_SECONDS,
        metavar="S",
        help="seconds that a rule may spend on replays and trials after the run; 0 does none (default: %(default)g)",
    )
    parser.add_argument("--quiet", action="store_true", help="do not print the report, only write files")
    parser.add_argument("-m", dest="module", action="store_true", help="run the module that follows, as python -m does")
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Run the script and report, or compare two reports."""
    words: list[str] = arguments.words
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        what = "module" if arguments.module else "script"
        raise UsageError(
            f"no {what} to run is given: cordwood doctor {'-m pkg.train' if arguments.module else 'train.py'}"
        )
    if words[0] == doctor_compare.WORD and not arguments.module:
        _refuse_options(arguments)
        return doctor_compare.run(words[1:])
    return _examine(words, arguments)


def _examine(words: list[str], arguments: argparse.Namespace) -> int:
    if arguments.steps is not None and arguments.steps < 1:
        raise UsageError(f"--steps {arguments.steps}: at least one step is needed to see something")
    if not 0 <= arguments.seconds < float("inf"):
        raise UsageError(f"--seconds {arguments.seconds}: a number of seconds is expected, 0 or more")
    rank = _rank()
    files = {name: of_rank(getattr(arguments, name), rank) for name in CONTENTS}
    check_outputs({f"--{name}": file for name, file in files.items()})
    _check_script(words[0], arguments.module)
    for name, file in files.items():  # the script may go to another folder
        setattr(arguments, name, None if file is None else file.absolute())

    from cordwood.doctor import DoctorOptions, run_script

    stderr, spare = sys.stderr, _duplicate(sys.stderr)  # the script may close it, or put something else in its place
    tells = not arguments.quiet and not rank
    asked = {option: file for option, file in misplaced(words).items() if tells and files[option[2:]] is None}
    at_once = are_nobodys(asked, words[0]) if not arguments.module else []
    tell_of_misplaced(words[0], at_once, arguments.module, stderr)
    judging = _Judging(stderr) if tells and stderr.isatty() else None
    options = DoctorOptions(
        steps=arguments.steps,
        seconds=arguments.seconds,
        pstats=None if arguments.pstats is None else str(arguments.pstats),
        progress=judging,
    )
    was_there, folder = changed_at(arguments.pstats), Path.cwd()
    with plain_output():
        code, report = run_script(words[0], words[1:], options, module=arguments.module)
    if judging is not None:
        judging.clear()
    stderr = _open_again(stderr, spare)
    later = {option: file for option, file in asked.items() if option not in at_once}
    with _who_reads_may_leave(stderr):
        tell_of_misplaced(words[0], are_unmet(later, code, folder), arguments.module, stderr)
    if report is None:
        return code
    if code:
        seen = (report.document["steps"] or {}).get("count", 0)
        how = "was interrupted" if code == _INTERRUPTED else f"ended with exit code {code}"
        report.tell_end(f"the script {how}", all_seen=arguments.steps is None or seen < arguments.steps)
    # Files first: who reads the report may have seen enough, and closed the pipe, before its end.
    unsaved = save(report, {".json": arguments.json, ".html": arguments.html})
    if arguments.pstats is not None and changed_at(arguments.pstats) == was_there:
        files["pstats"] = None
        unsaved_profile = [_why_no_profile(report, arguments.pstats)]
    else:
        unsaved_profile = []
    written = [f"cordwood: {CONTENTS[name]} is in {file}" for name, file in files.items() if file is not None]
    with _who_reads_may_leave(stderr):
        if tells:
            print_report(report, stderr)
        for line in (*unsaved_profile, *unsaved, *(written if tells and not unsaved else ())):
            print_as_shown(line, stderr)
    return code or (_BAD_DATA if unsaved else report.exit_code)


def _why_no_profile(report: "Report", profile: Path) -> str:
    from cordwood.common.text import printable

    why = report.document["missing"].get("stacks", "there was too little to sample")
    return f"cordwood: --pstats {profile} was not written: {printable(why)}"


class _Judging(ProgressLine):
    """Tells who waits after the script's end what is being tried out; the script may have closed the stream."""

    def __call__(self, step: str, done: int, total: int) -> None:
        with suppress(OSError, ValueError):
            super().__call__(f"doctor: replays and trials: {step}", done, total)

    def clear(self) -> None:
        with suppress(OSError, ValueError):
            super().clear()


def _duplicate(stream: TextIO) -> int | None:
    """Another descriptor of what a stream writes to; None if it writes to no file."""
    try:
        return os.dup(stream.fileno())
    except (OSError, ValueError):
        return None


def _open_again(stream: TextIO, spare: int | None) -> TextIO:
    """The stream, or another one to the same place if the script has closed it."""
    if stream.closed:
        return os.fdopen(os.open(os.devnull, os.O_WRONLY) if spare is None else spare, "w", encoding="utf-8")
    if spare is not None:
        os.close(spare)
    return stream


def _check_script(script: str, module: bool) -> None:
    """A script that is not there, before torch is imported: what may have been meant?"""
    if module or Path(script).exists():
        return
    meant = did_you_mean_path(script) or did_you_mean(script, [doctor_compare.WORD])
    raise UsageError(f"{script} is no file: a Python script is expected, or -m and the name of a module{meant}")


@contextmanager
def _who_reads_may_leave(stream: TextIO) -> Iterator[None]:
    """Tell somebody who may stop reading in the middle, as `head` does: the exit code stays what it is."""
    try:
        yield
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # so that Python has somewhere to write the rest to at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _rank() -> int:
    """Of how many processes that torchrun started this is; the first one tells."""
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdigit() else 0


def print_report(report: "Report", stream: TextIO) -> None:
    """The report as the stream can show it."""
    from cordwood.doctor import format_text

    print_as_shown(format_text(report.document, terminal_width(), wants_colour(stream), _shows_blocks(stream)), stream)


def _shows_blocks(stream: TextIO) -> bool:
    try:
        "█▓▒░▚·±".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _refuse_options(arguments: argparse.Namespace) -> None:
    """Options of an examination say nothing about a comparison: better refused than ignored."""
    given = [f"--{name}" for name in ("steps", *CONTENTS) if getattr(arguments, name) is not None]
    given += ["--seconds"] * (arguments.seconds != _SECONDS) + ["--quiet"] * arguments.quiet
    if given:
        raise UsageError(
            f"{given[0]} is for examining a script: compare takes two reports and no options, and prints to stdout: "
            "cordwood doctor compare before.json after.json"
        )
