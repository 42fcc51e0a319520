"""``cordwood trim``: rewrite checkpoints without the bytes that no tensor reaches."""

import argparse
import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cordwood.cli.tensor_files import FoundFile, find_files
from cordwood.common.progress_line import ProgressLine
from cordwood.errors import CordwoodError, FormatError, StorageError, UsageError

if TYPE_CHECKING:
    from cordwood.tensors import Trimmed

HELP = "rewrite checkpoints without the bytes that no tensor reaches"
_EXAMPLES = """\
examples:
  cordwood trim x.pt -o small.pt            values, sharing and everything around the tensors stay
  cordwood trim x.pt --dry-run              how small would it be?
  cordwood trim x.pt -o x.cord              the same through the codecs: smaller still
  cordwood trim checkpoints/ --in-place     every checkpoint in a folder
  cordwood trim checkpoints/ -o trimmed/    the same into another folder

Nothing that is in a file is run. A new file is compared with the old one, tensor by tensor, before it takes
its place. Exit code 1: a file has damaged records; 3: a file could not be read or written.
"""
_FINDINGS = 1
_BAD_DATA = 3


@dataclass
class _Outcome:
    """What became of all files."""

    dry_run: bool
    trimmed: "list[Trimmed]" = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def before(self) -> int:
        return sum(each.before for each in self.trimmed)

    @property
    def after(self) -> int:
        return sum(each.after for each in self.trimmed)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood trim`` takes."""
    parser.epilog = _EXAMPLES
    parser.add_argument("files", nargs="+", metavar="FILE", help="a checkpoint, or a folder of them")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", metavar="OUT", help="the new file, or the folder for several new files")
    where.add_argument("--in-place", action="store_true", help="replace each file after its new one was checked")
    parser.add_argument("--compress", action="store_true", help="deflate the records; torch.load still reads them")
    parser.add_argument("--dry-run", action="store_true", help="write nothing, and print the sizes")
    parser.add_argument("--json", action="store_true", help="print one JSON document in place of text")


def run(arguments: argparse.Namespace) -> int:
    """Trim every file and print what became of it."""
    output = Path(arguments.output) if arguments.output else None
    files = find_files(arguments.files, leave_out=output)
    if not (arguments.output or arguments.in_place or arguments.dry_run):
        raise UsageError("say where to: -o OUT or --in-place; or ask for the sizes alone with --dry-run")
    several = len(files) > 1 or files[0].folder is not None
    targets = _targets(files, arguments.output, several) if output is not None else {}
    for source, target in targets.items():
        if target.exists() and target.samefile(source):
            raise UsageError(f"{target} would be written over itself; say --in-place in place of -o if that is meant")
    outcome = _Outcome(arguments.dry_run)
    with ProgressLine(sys.stderr) as progress:
        for number, found in enumerate(files, 1):
            try:
                outcome.trimmed.append(_trim(found, targets.get(found.path), arguments))
            except StorageError:
                raise  # a full disk is full for the next file too
            except CordwoodError as error:
                if not several:
                    raise
                into = outcome.skipped if _is_left_alone(found, error) else outcome.failed
                into[str(found.path)] = str(error)
            if several:
                progress("trimming files", number, len(files))
    if arguments.json:
        print(json.dumps(_document(outcome), indent=2))
    else:
        _print(outcome)
    if outcome.failed:
        return _BAD_DATA
    return _FINDINGS if any(each.damaged for each in outcome.trimmed) else 0


def _targets(files: list[FoundFile], output: str, several: bool) -> dict[Path, Path]:
    """Where each file goes."""
    folder = Path(output)
    if not several and not folder.is_dir() and not output.endswith("/"):
        return {files[0].path: folder}
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{output} is a file: for {len(files)} files, -o takes a folder")
    targets: dict[Path, Path] = {}
    for found in files:
        target = folder / found.inside
        if target in targets.values():
            raise UsageError(f"two of the files would become {target}; trim them one by one")
        targets[found.path] = target
    return targets


def _trim(found: FoundFile, target: Path | None, arguments: argparse.Namespace) -> "Trimmed":
    from cordwood.tensors import trim  # imports torch: `cordwood --help` must not

    if arguments.dry_run:
        return trim(found.path, target, compress=arguments.compress or None, dry_run=True)
    if target is not None:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(error.errno, f"{error.strerror}; nothing was written", str(target.parent)) from error
    try:
        return trim(found.path, target, in_place=arguments.in_place, compress=arguments.compress or None)
    except PermissionError as error:
        raise FormatError(f"{found.path}: {error.strerror}") from error


def _is_left_alone(found: FoundFile, error: CordwoodError) -> bool:
    """Whether there is nothing to trim in a file of this kind, as opposed to one that is broken."""
    from cordwood.tensors import inspect

    if isinstance(error, UsageError):
        return True
    try:
        return inspect(found.path, check=False).format == "torchscript"
    except (FormatError, OSError):
        return False


def _document(outcome: _Outcome) -> dict[str, Any]:
    return {
        "dry_run": outcome.dry_run,
        "files": [{**asdict(each), "saved": each.saved} for each in outcome.trimmed],
        "skipped": [{"path": path, "reason": reason} for path, reason in outcome.skipped.items()],
        "failed": [{"path": path, "error": error} for path, error in outcome.failed.items()],
        "total": {"before": outcome.before, "after": outcome.after, "saved": outcome.before - outcome.after},
    }


def _print(outcome: _Outcome) -> None:
    from cordwood.common.tables import folded
    from cordwood.common.text import change, printable

    lines = []
    for each in outcome.trimmed:
        lines.append(f"{printable(each.target or each.source)}: {change(each.before, each.after)}")
        lines += [f"  {printable(line)}" for line in (*each.notes, *(f"damaged: {what}" for what in each.damaged))]
    for title, reasons in (("skipped", outcome.skipped), ("failed", outcome.failed)):
        lines += [f"{title}: {printable(reason)}" for reason in reasons.values()]
    if len(outcome.trimmed) > 1:
        lines += ["", f"{len(outcome.trimmed)} files: {change(outcome.before, outcome.after)}"]
    if outcome.dry_run:
        lines.append("nothing was written (--dry-run)")
    print(folded(lines))
