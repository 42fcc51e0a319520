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
  cordwood pack list.csv train.cordwood --on-error skip --timeout 60
                                        also without those that take more than a minute
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
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "source", metavar="SOURCE", help="a folder or file, recognised by its content, or module:name of a dataset"
    )
    parser.add_argument("dest", metavar="DEST", help="the folder of the store to make or to resume")
    work = parser.add_argument_group("what is done")
    work.add_argument(
        "--transform",
        action="append",
        metavar="[FIELD=]MODULE:NAME",
        help="function that preprocesses a sample, or one FIELD of it; repeat the option for several fields",
    )
    work.add_argument("--batched", action="store_true", help="hand batches of samples to the transform")
    work.add_argument(
        "--batch-size", type=int, default=64, metavar="N", help="samples per batch of --batched (default: %(default)s)"
    )
    work.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of random transforms (default: %(default)s)",
    )
    work.add_argument(
        "--transform-version",
        metavar="V",
        help="name of the transform's version; another name is a change",
    )
    work.add_argument(
        "--accept-changed-transform", action="store_true", help="resume although the transform has changed"
    )
    source = parser.add_argument_group("what is read")
    source.add_argument(
        "--from",
        dest="source_kind",
        metavar="KIND",
        help="kind of SOURCE: images, unlabelled, manifest, tensors, file, dataset, iterable, or that of a plug-in "
        "(default: recognised by its content)",
    )
    source.add_argument(
        "--decode",
        choices=("tensor", "pil", "none"),
        default="tensor",
        help="what a transform gets for an image: tensor, pil for a PIL image, or none for the bytes of its file "
        "(default: %(default)s)",
    )
    source.add_argument(
        "--decode-size",
        type=int,
        metavar="N",
        help="decode JPEG images at a fraction of their size, the shorter side no less than N (default: full size)",
    )
    source.add_argument(
        "--frames",
        choices=("first", "all"),
        default="first",
        help="which frames of an animation or pages of a TIFF file are read: first, or all as one sample "
        "(default: %(default)s)",
    )
    source.add_argument(
        "--max-pixels",
        type=int,
        metavar="N",
        help="refuse images of more than N pixels in all frames that are read (default: 178956970)",
    )
    source.add_argument("--follow-links", action="store_true", help="follow links that lead out of the folder")
    source.add_argument("--absolute-paths", action="store_true", help="accept absolute paths in a manifest")
    source.add_argument("--part", metavar="K/N", help="pack part K of N only, as one of several jobs (default: 1/1)")
    source.add_argument("--update", action="store_true", help="add new inputs to a store, and pack changed ones again")
    source.add_argument(
        "--limit", type=int, metavar="N", help="dry run: try N inputs, and print size, time and whether it is worth it"
    )
    store = parser.add_argument_group("what is written")
    store.add_argument(
        "--goal",
        choices=("small", "balanced", "fast", "raw"),
        help="what the codecs aim at: small, balanced, fast or raw (default: balanced)",
    )
    store.add_argument(
        "--shard-bytes", type=_size, metavar="SIZE", help="size of a shard, such as 64MB (default: 64MiB)"
    )
    store.add_argument(
        "--keep-encoded",
        action="append",
        metavar="FIELD",
        help="keep the image files of a field as they are, and decode them when they are read; repeatable",
    )
    run = parser.add_argument_group("how it runs")
    run.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="number of processes; 0 packs in this one, which is quicker for small jobs (default: one per core)",
    )
    run.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="let an input fail that takes more than S seconds, and kill its worker process (default: no limit)",
    )
    run.add_argument(
        "--on-error",
        choices=("fail", "skip", "retry"),
        default="fail",
        help="what happens if an input fails: fail stops the job, skip leaves the input out and lists it, retry tries "
        "it again and then stops the job (default: %(default)s)",
    )
    run.add_argument(
        "--max-errors",
        type=int,
        default=100,
        metavar="N",
        help="failures in a row that --on-error skip accepts (default: %(default)s)",
    )
    run.add_argument(
        "--retries",
        type=int,
        default=2,
        metavar="N",
        help="attempts of --on-error retry (default: %(default)s)",
    )
    run.add_argument("--json", action="store_true", help="print one JSON document in place of text")
    run.add_argument("--quiet", action="store_true", help="print neither progress nor a summary")


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
            timeout=arguments.timeout,
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
            frames=arguments.frames,
            follow_links=arguments.follow_links,
            absolute_paths=arguments.absolute_paths,
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
