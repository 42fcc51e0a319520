"""``cordwood doctor``: run a training script unchanged, and tell where its time goes and what to change."""

import argparse
import os
import shutil
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from cordwood.cli import comparing
from cordwood.cli.colour import wants_colour
from cordwood.cli.output import plain_output, print_as_shown
from cordwood.cli.progress import Progress
from cordwood.errors import StorageError, UsageError
from cordwood.spelling import did_you_mean, did_you_mean_path

if TYPE_CHECKING:
    from cordwood.doctor.report import Report

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
_CONTENTS = {"json": "the report as JSON", "html": "the report as a page", "pstats": "the profile"}
_BAD_DATA = 3
_WRONG_USE = 2  # also argparse's code in most scripts, for an option that they do not know
_SECONDS = 20.0
_INTERRUPTED = 130  # by Ctrl-C, as shells have it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood doctor`` takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = _USAGE
    parser.epilog = _EXAMPLES
    parser.allow_abbrev = False  # an option of the script that is short for two of ours is none of our business
    parser.add_argument("--steps", type=int, metavar="N", help="watch N training steps, then let go (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON, for `compare` and tools")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as a page that opens offline")
    parser.add_argument("--pstats", type=Path, metavar="FILE", help="write the sampled profile, for pstats or snakeviz")
    parser.add_argument(
        "--seconds",
        type=float,
        default=_SECONDS,
        metavar="S",
        help="that a rule may spend on replays and trials after the run (default: 20; 0: none are done)",
    )
    parser.add_argument("--quiet", action="store_true", help="print no report: the exit code and the files tell")
    parser.add_argument("-m", dest="module", action="store_true", help="the next word is a module, not a file")
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
    if words[0] == comparing.WORD and not arguments.module:
        _refuse_options(arguments)
        return comparing.run(words[1:])
    return _examine(words, arguments)


def _examine(words: list[str], arguments: argparse.Namespace) -> int:
    if arguments.steps is not None and arguments.steps < 1:
        raise UsageError(f"--steps {arguments.steps}: at least one step is needed to see something")
    if not 0 <= arguments.seconds < float("inf"):
        raise UsageError(f"--seconds {arguments.seconds}: a number of seconds is expected, 0 or more")
    rank = _rank()
    files = {name: _of_rank(getattr(arguments, name), rank) for name in _CONTENTS}
    _check_outputs({f"--{name}": file for name, file in files.items()})
    _check_script(words[0], arguments.module)
    for name, file in files.items():  # the script may go to another folder
        setattr(arguments, name, None if file is None else file.absolute())

    from cordwood.doctor.script import Options, run_script  # imports torch: `cordwood --help` must not

    stderr, spare = sys.stderr, _duplicate(sys.stderr)  # the script may close it, or put something else in its place
    profile: Path | None = arguments.pstats
    judging = _Judging(stderr) if not arguments.quiet and not rank and stderr.isatty() else None
    options = Options(
        steps=arguments.steps,
        seconds=arguments.seconds,
        pstats=None if profile is None else str(profile),
        progress=judging,
    )
    was_there, folder = _changed_at(profile), Path.cwd()
    with plain_output():
        code, report = run_script(words[0], words[1:], options, module=arguments.module)
    if judging is not None:
        judging.clear()
    stderr = _open_again(stderr, spare)
    if not arguments.quiet and not rank:
        names = [name for name, file in files.items() if file is None and _is_misplaced(name, words, code, folder)]
        _tell_of_misplaced(words[0], names, arguments.module, stderr)
    if report is None:
        return code
    if code:
        seen = (report.document["steps"] or {}).get("count", 0)
        how = "was interrupted" if code == _INTERRUPTED else f"ended with exit code {code}"
        report.tell_end(f"the script {how}", all_seen=arguments.steps is None or seen < arguments.steps)
    if not arguments.quiet and not rank:
        print_report(report, stderr)
    written = dict(files)
    if profile is not None and _changed_at(profile) == was_there:
        written["pstats"] = None
        from cordwood.tensors.sizes import printable

        why = report.document["missing"].get("stacks", "there was too little to sample")
        print(f"cordwood: --pstats {profile} was not written: {printable(why)}", file=stderr)
    unsaved = _save(report, {".json": arguments.json, ".html": arguments.html}, stderr)
    if not arguments.quiet and not rank and not unsaved:
        for name, file in written.items():
            if file is not None:
                print_as_shown(f"cordwood: {_CONTENTS[name]} is in {file}", stderr)
    return code or unsaved or report.exit_code


class _Judging(Progress):
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
    meant = did_you_mean_path(script) or did_you_mean(script, [comparing.WORD])
    raise UsageError(f"{script} is no file: a Python script is expected, or -m and the name of a module{meant}")


def _is_misplaced(name: str, words: list[str], code: int, folder: Path) -> bool:
    """Whether a file seems to be asked of us behind the script's name. Many scripts have a --json of their own.

    It seems so if the script refused its words, or made no file of the name that they give.
    """
    option = f"--{name}"
    for word, following in pairwise([*words[1:], ""]):
        before, equals, value = word.partition("=")
        if before == option:
            file = value if equals else following
            if code == _WRONG_USE or (file.lower().endswith(f".{name}") and not (folder / file).exists()):
                return True
    return False


def _tell_of_misplaced(script: str, names: list[str], module: bool, stderr: TextIO) -> None:
    """The script got these words, and most scripts ignore what they do not know."""
    for name in names:
        print(
            f"cordwood: --{name} stands behind {script}, so it went to the script; the doctor's own options come "
            f"before: cordwood doctor --{name} FILE {'-m ' if module else ''}{script}",
            file=stderr,
        )


def _save(report: "Report", files: dict[str, Path | None], stderr: TextIO) -> int:
    """Write the files, after what was found has been told; the exit code if one cannot be written after all."""
    code = 0
    for suffix, file in files.items():
        try:
            if file is not None:
                report.save_as(suffix, file)
        except StorageError as error:
            print(f"cordwood: {error}", file=stderr)
            code = _BAD_DATA
    return code


def _changed_at(file: Path | None) -> int | None:
    return file.stat().st_mtime_ns if file is not None and file.exists() else None


def _rank() -> int:
    """Of how many processes that torchrun started this is; the first one tells."""
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdigit() else 0


def _of_rank(file: Path | None, rank: int) -> Path | None:
    """Each rank of a torchrun job writes a file of its own."""
    return file.with_suffix(f".rank{rank}{file.suffix}") if file is not None and rank else file


def print_report(report: "Report", stream: TextIO) -> None:
    """The report as the stream can show it."""
    from cordwood.doctor.terminal import format_text

    width = shutil.get_terminal_size((100, 24)).columns if stream.isatty() else 100
    print_as_shown(format_text(report.document, width, wants_colour(stream), _shows_blocks(stream)), stream)


def _shows_blocks(stream: TextIO) -> bool:
    try:
        "█▓▒░▚·±".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _check_outputs(files: dict[str, Path | None]) -> None:
    """Refuse what cannot be written before hours of training, not after them."""
    seen: dict[Path, str] = {}
    for option, file in files.items():
        if file is None:
            continue
        where = f"{option} {file}"
        if file.is_dir():
            raise UsageError(f"{where} is a folder, but the name of a file is expected")
        if not file.absolute().parent.is_dir():
            raise UsageError(f"{where}: there is no folder {file.absolute().parent}")
        if not os.access(file if file.exists() else file.absolute().parent, os.W_OK):
            raise UsageError(f"{where} may not be written")
        other = seen.setdefault(file.resolve(), option)
        if other != option:
            raise UsageError(f"{where} is the same file as that of {other}")


def _refuse_options(arguments: argparse.Namespace) -> None:
    """Options of an examination say nothing about a comparison: better refused than ignored."""
    given = [f"--{name}" for name in ("steps", *_CONTENTS) if getattr(arguments, name) is not None]
    given += ["--seconds"] * (arguments.seconds != _SECONDS) + ["--quiet"] * arguments.quiet
    if given:
        raise UsageError(
            f"{given[0]} is for examining a script: compare takes two reports and no options, and prints to stdout: "
            "cordwood doctor compare before.json after.json"
        )
