"""``cordwood pack``: preprocess every input of a source once, and keep the samples in a store."""

import argparse
import json
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from cordwood.errors import UsageError

if TYPE_CHECKING:
    from cordwood.packing import Estimate, Packed

HELP = "preprocess every input of a source once, and keep the samples in a store"
_EXAMPLES = """\
examples:
  cordwood pack photos/ train.cordwood --transform mypkg.prep:prepare --workers 8
  cordwood pack photos/ train.cordwood --transform mypkg.prep:prepare --limit 200
                                        what would it cost, is it worth it? Nothing is written
  cordwood pack photos/ train.cordwood --transform image=mypkg.prep:crop --decode pil
                                        a function of one field, which gets a PIL image
  cordwood pack list.csv train.cordwood --on-error skip
                                        go on without broken images, and list them
  cordwood pack mypkg.data:train_set train.cordwood
                                        any dataset, iterable or function that makes one
  cordwood pack photos/ part3.cordwood --transform mypkg.prep:prepare --part 3/16
                                        a part on this machine; `cordwood merge` joins them
  cordwood pack photos/ train.cordwood --transform mypkg.prep:prepare --update
                                        add new files, do changed ones again

The same command goes on where it was stopped, by Ctrl-C, by a kill or by a crash, and ends with the same bytes.
Exit code 1: some inputs failed and were skipped; 2: wrong use; 3: an input failed, or data are bad; 130: stopped.
"""
_FINDINGS = 1
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_FIELD = re.compile(r"([^=:]+)=(.*)", re.DOTALL)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood pack`` takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument("source", metavar="SOURCE", help="a folder or file, told by content, or module:name")
    parser.add_argument("dest", metavar="DEST", help="the store to make, or to go on with")
    work = parser.add_argument_group("what is done")
    work.add_argument(
        "--transform",
        action="append",
        metavar="[FIELD=]MODULE:NAME",
        help="a function of a sample, or of one field; several fields: say it again",
    )
    work.add_argument("--batched", action="store_true", help="the function takes and returns a batch")
    work.add_argument("--batch-size", type=int, default=64, metavar="N", help="samples in one (default: 64)")
    work.add_argument("--seed", type=int, default=0, metavar="N", help="for random preprocessing (default: 0)")
    work.add_argument("--transform-version", metavar="V", help="a text of your own; another one is another transform")
    work.add_argument("--accept-changed-transform", action="store_true", help="go on though the transform has changed")
    source = parser.add_argument_group("what is read")
    source.add_argument("--from", dest="source_kind", metavar="KIND", help="what SOURCE is, if its content misleads")
    source.add_argument("--decode", choices=("tensor", "pil", "none"), default="tensor", help="what an image becomes")
    source.add_argument("--decode-size", type=int, metavar="N", help="no side need be longer: decode scaled down")
    source.add_argument("--max-pixels", type=int, metavar="N", help="of an image; larger ones are refused")
    source.add_argument("--follow-links", action="store_true", help="also links that lead out of the folder")
    source.add_argument("--part", metavar="K/N", help="part K of N, for another job or machine")
    source.add_argument("--update", action="store_true", help="add new inputs, do changed ones again")
    source.add_argument("--limit", type=int, metavar="N", help="a dry run with N inputs: size, time, is it worth it?")
    store = parser.add_argument_group("what is written")
    store.add_argument("--goal", choices=("small", "balanced", "fast", "raw"), help="of the codecs (default: balanced)")
    store.add_argument("--shard-bytes", type=_size, metavar="SIZE", help="such as 64MB (default: 64MiB)")
    store.add_argument(
        "--keep-encoded", action="append", metavar="FIELD", help="keep images as they are, decode at reading"
    )
    run = parser.add_argument_group("how it runs")
    run.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one a core); 0: this one, quicker for small jobs"
    )
    run.add_argument("--on-error", choices=("fail", "skip", "retry"), default="fail", help="(default: fail)")
    run.add_argument("--max-errors", type=int, default=100, metavar="N", help="in a row, for skip (default: 100)")
    run.add_argument("--retries", type=int, default=2, metavar="N", help="for retry (default: 2)")
    run.add_argument("--json", action="store_true", help="print the result as one JSON document")
    run.add_argument("--quiet", action="store_true", help="no progress and no summary")


def run(arguments: argparse.Namespace) -> int:
    """Pack, or try how that would be, and print what came of it."""
    from cordwood.packing import (
        Packed,
        pack,  # imports torch: `cordwood --help` must not
    )
    from cordwood.store import Field

    transform = _transform(arguments.transform or [])
    fields = {name: Field(keep_encoded=True) for name in arguments.keep_encoded or ()}
    with _sigterm_as_interrupt(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"[\d,]+ of [\d,]+ inputs failed and were left out")  # printed below
        result = pack(
            arguments.source,
            arguments.dest,
            transform,
            batched=arguments.batched,
            batch_size=arguments.batch_size,
            workers=arguments.workers,
            seed=arguments.seed,
            goal=arguments.goal,
            fields=fields or None,
            shard_bytes=arguments.shard_bytes,
            on_error=arguments.on_error,
            max_errors=arguments.max_errors,
            retries=arguments.retries,
            source_kind=arguments.source_kind,
            decode=arguments.decode,
            decode_size=arguments.decode_size,
            follow_links=arguments.follow_links,
            **({} if arguments.max_pixels is None else {"max_pixels": arguments.max_pixels}),
            part=arguments.part,
            update=arguments.update,
            version=arguments.transform_version,
            accept_changed_transform=arguments.accept_changed_transform,
            limit=arguments.limit,
            progress=False if arguments.quiet else None,
        )
    _print(result, arguments)
    if isinstance(result, Packed) and result.failed:
        if not arguments.quiet:
            print(f"cordwood: exit code {_FINDINGS}, since inputs were left out ({result.failed:,})", file=sys.stderr)
        return _FINDINGS
    return 0


def _print(result: "Packed | Estimate", arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps(result.to_dict(), indent=2))
    elif not arguments.quiet or arguments.limit is not None:
        print(result)


def _transform(words: list[str]) -> str | dict[str, str] | None:
    """A function of samples, or functions of fields by their names."""
    if not words:
        return None
    named = [_FIELD.fullmatch(word) for word in words]
    if len(words) == 1 and named[0] is None:
        return words[0]
    fields: dict[str, str] = {}
    for word, match in zip(words, named, strict=True):
        if match is None:
            raise UsageError(f"--transform {word} is a function of samples, and there can be only one: name its FIELD=")
        if match[1] in fields:
            raise UsageError(f"--transform is given twice for the field {match[1]!r}")
        fields[match[1]] = match[2]
    return fields


def _size(text: str) -> int:
    """A number of bytes: ``64MB``, ``64MiB``, ``1.5G``, ``67108864``."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: say 64MB, 64MiB or a number of bytes")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.lower()])


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Slurm and others end jobs by SIGTERM: that stops a run as Ctrl-C does, where another one can go on."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        handler: Any = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # SIGINT is ignored by jobs that a shell has put into the background
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    if threading.current_thread() is not threading.main_thread():  # no other one may say what signals do
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
