"""``cw.pack``: checks its arguments, then runs the job, an update or a dry run."""

import math
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from cordwood.codecs import Goal
from cordwood.common.arguments import checks_keywords, whole_number
from cordwood.common.resources import default_threads
from cordwood.common.text import brief
from cordwood.errors import PackError, UsageError
from cordwood.packing.dry_run import estimate
from cordwood.packing.journal.failure_policy import Failures, OnError
from cordwood.packing.journal.inputs import Totals
from cordwood.packing.journal.part import bounds, parsed_part
from cordwood.packing.pack_run import OneRun, Settings
from cordwood.packing.report.estimate import Estimate
from cordwood.packing.report.progress import PackProgress, Reporter, reporter
from cordwood.packing.report.startup_cost import measured
from cordwood.packing.report.summary import Packed
from cordwood.packing.transform.transform import prepare_transform
from cordwood.sources import MAX_PIXELS, Decode, Frames, Source, SourceOptions, find
from cordwood.store import Field
from cordwood.store.writing.options import checked_options

MOST_WORKERS = 1024


class PackOptions(TypedDict, total=False):
    """The keywords of `pack` without ``limit``, for type checkers; `pack` has their defaults and describes them."""

    batched: bool
    batch_size: int
    workers: int | None
    timeout: float | None
    seed: int
    goal: Goal | None
    fields: Mapping[str, Field] | None
    shard_bytes: int | None
    on_error: OnError
    max_errors: int
    retries: int
    source_kind: str | None
    decode: Decode
    decode_size: int | None
    frames: Frames
    max_pixels: int
    follow_links: bool
    absolute_paths: bool
    part: str | tuple[int, int] | None
    update: bool
    version: str | None
    accept_changed_transform: bool
    progress: bool | Callable[[PackProgress], object] | None


@overload
def pack(
    source: Any,
    dest: str | os.PathLike[str],
    transform: Any = None,
    *,
    limit: None = None,
    **options: Unpack[PackOptions],
) -> Packed: ...


@overload
def pack(
    source: Any,
    dest: str | os.PathLike[str],
    transform: Any = None,
    *,
    limit: int,
    **options: Unpack[PackOptions],
) -> Estimate: ...


@checks_keywords("cw.pack", {"num_workers": "is called workers here"})
def pack(
    source: Any,
    dest: str | os.PathLike[str],
    transform: Any = None,
    *,
    batched: bool = False,
    batch_size: int = 64,
    workers: int | None = None,
    timeout: float | None = None,
    seed: int = 0,
    goal: Goal | None = None,
    fields: Mapping[str, Field] | None = None,
    shard_bytes: int | None = None,
    on_error: OnError = "fail",
    max_errors: int = 100,
    retries: int = 2,
    source_kind: str | None = None,
    decode: Decode = "tensor",
    decode_size: int | None = None,
    frames: Frames = "first",
    max_pixels: int = MAX_PIXELS,
    follow_links: bool = False,
    absolute_paths: bool = False,
    part: str | tuple[int, int] | None = None,
    update: bool = False,
    limit: int | None = None,
    version: str | None = None,
    accept_changed_transform: bool = False,
    progress: bool | Callable[[PackProgress], object] | None = None,
) -> Packed | Estimate:
    """Preprocess every input of a source once, and keep the samples in a store.

    ::

        cw.pack("photos/", "train.cordwood", transform=prepare)
        cw.pack(dataset, "train.cordwood", transform={"image": compose}, workers=8)
        print(cw.pack("photos/", "train.cordwood", transform=prepare, limit=200))      # a dry run: is it worth it?

    ``source`` is a folder of images or tensor files, a file of many samples, a torch dataset, an iterable, or
    "module:name" of one; it is told by its content, unless ``source_kind`` says what it is. Images come decoded
    (``decode``: "tensor", "pil" or "none"), at a fraction of their size if ``decode_size`` allows; those of more than
    ``max_pixels`` are refused. Of animations and of TIFF files with several pages the first frame is read, and the
    summary counts them; ``frames="all"`` gives all frames of each file in one sample, [frames, 3, height, width] (one
    frame for stills), or as a list of PIL images. ``follow_links`` takes links that lead out of a folder, and
    ``absolute_paths`` absolute paths in a manifest.

    ``transform`` takes a sample and returns one, several (a list or a generator), or None, which drops it; or it is
    ``{"image": function}`` for single fields, or, with ``batched``, takes and returns batches of ``batch_size``. It
    runs in ``workers`` processes (one a core; 0: in this one, quicker for small jobs), which never import the caller's
    script. ``seed`` gives every sample random numbers of its own. The stored bytes do not depend on the number of
    workers.

    ``goal``, ``fields`` and ``shard_bytes`` are those of `cw.Writer`.

    Run again, the same call goes on where it stopped, however it was stopped, and ends with the bytes of a run that
    was not; ``version`` is a text of the caller's that tells transforms apart, beside their source, and
    ``accept_changed_transform`` goes on with another one, or with another dataset object. ``update`` brings a store up
    to date with its source. ``part="3/16"`` packs one part of a job; `cw.merge` joins them.

    ``on_error``: "fail" stops at an input that fails and names it; "skip" goes on and lists it in
    ``<dest>.errors.jsonl``, unless more than ``max_errors`` fail in a row; "retry" tries it ``retries`` times more.
    ``timeout``: an input that takes more seconds than that to be read and transformed has failed, without a retry; its
    worker process is killed and replaced. With ``batched``, reading is timed per input, and the transform per batch.

    ``progress``: None shows a bar, False nothing, a function is told (`PackProgress`). ``limit`` packs nothing, tries
    so many inputs, and returns an `Estimate` of size, time and use.
    """
    run = one_run(
        source,
        dest,
        transform,
        batched=batched,
        batch_size=batch_size,
        workers=workers,
        timeout=timeout,
        seed=seed,
        goal=goal,
        fields=fields,
        shard_bytes=shard_bytes,
        on_error=on_error,
        max_errors=max_errors,
        retries=retries,
        source_kind=source_kind,
        decode=decode,
        decode_size=decode_size,
        frames=frames,
        max_pixels=max_pixels,
        follow_links=follow_links,
        absolute_paths=absolute_paths,
        part=part,
        version=version,
        accept_changed_transform=accept_changed_transform,
    )
    if limit is not None:
        if timeout is not None:
            raise UsageError(
                "limit (--limit) tries inputs in this process, which timeout cannot stop: leave timeout (--timeout) out"
            )
        return _estimated(run, limit, stops_at_failures=on_error == "fail")
    packed = carried_out(run.update if update else run.run, progress)
    warn_of_failures(run, packed)
    return packed


def one_run(source: Any, dest: str | os.PathLike[str], transform: Any, **options: Unpack[PackOptions]) -> OneRun:
    """The run that the arguments of ``cw.pack`` mean, checked as far as they can be before it begins."""
    size = whole_number("batch_size", options["batch_size"], 1, 1 << 20)
    workers, timeout, decode = options["workers"], options["timeout"], options["decode"]
    if timeout is not None:
        _check_timeout(timeout, workers)
    settings = Settings(
        checked_options(options["goal"], options["shard_bytes"], options["fields"]),
        size if options["batched"] else 1,
        default_threads() if workers is None else whole_number("workers", workers, 0, MOST_WORKERS),
        timeout,
        whole_number("seed", options["seed"], -(1 << 63), (1 << 63) - 1, "a whole number from -2**63 to 2**63 - 1"),
        whole_number("retries", options["retries"], 0, (1 << 31) - 1) if options["on_error"] == "retry" else 0,
        parsed_part(options["part"]),
        options["accept_changed_transform"],
    )
    dest = Path(dest).absolute()
    failures = Failures(options["on_error"], options["max_errors"], dest.with_name(f"{dest.name}.errors.jsonl"))
    step = prepare_transform(transform, batched=options["batched"], version=options["version"])
    kept = frozenset(name for name, field in settings.options.fields.items() if field.keep_encoded)
    images = SourceOptions(
        decode,
        options["decode_size"],
        options["max_pixels"],
        kept,
        options["follow_links"],
        options["frames"],
        options["absolute_paths"],
    )
    found = find(source, options["source_kind"], images)
    _check_place(found, dest)
    if images.frames == "all" and found.describe().get("frames") != "all":
        raise UsageError(
            f'frames="all" (--frames all) is for image files, and a source of kind {found.kind!r} reads none'
        )
    if decode == "pil" and transform is None and "decoders" in found.describe():
        raise UsageError("decode='pil' is for a transform that takes PIL images, and there is none: leave it out")
    if workers is None:
        settings = replace(settings, workers=_useful_workers(found, settings))
    return OneRun(found, dest, step, settings, failures)


def carried_out(step: Callable[[Reporter], Packed], progress: bool | Callable[[PackProgress], object] | None) -> Packed:
    """Runs `step` with a progress reporter and returns its result."""
    try:
        with reporter(progress) as report:
            return step(report)
    except PackError as error:
        if error.__cause__ is None:
            raise
        # An input failed, which its cause tells about; the frames of the loop that noticed it tell nobody anything.
        raise error.with_traceback(None) from error.__cause__


def warn_of_failures(run: OneRun, totals: Packed | Totals) -> None:
    """Warn of inputs that are not in the store; for functions of the package's surface."""
    if totals.failed:
        warnings.warn(
            f"{totals.failed:,} of {totals.inputs:,} inputs failed and were left out: {run.failures.log} tells why",
            stacklevel=4,  # behind the check of keywords
        )


def _check_timeout(timeout: Any, workers: int | None) -> None:
    """Only a process can be killed, whatever it is doing."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise UsageError(f"timeout must be None or a number of seconds greater than 0, got {brief(timeout)}")
    if workers == 0:
        raise UsageError(
            "timeout needs a worker process that can be killed, and workers=0 (--workers 0) has none: take workers=1 "
            "or more, or leave timeout (--timeout) out"
        )


def _check_place(source: Source, dest: Path) -> None:
    """A store in the folder that it is packed from would be an input of the next run."""
    path = source.describe().get("path")
    if isinstance(path, str) and dest.resolve().is_relative_to(Path(path).resolve()):
        raise UsageError(f"{dest} is inside of {path}, which is packed: name a place outside of it")


def _estimated(run: OneRun, limit: int, *, stops_at_failures: bool) -> Estimate:
    source, settings = run.source, run.settings

    def starting() -> float:
        return measured(run.job, settings.workers) if settings.workers else 0.0

    return estimate(
        source,
        run.transform,
        run.dest,
        limit=limit,
        workers=settings.workers,
        batch=settings.batch,
        seed=settings.seed,
        goal=settings.options.goal,
        fields=settings.options.fields,
        shard_bytes=settings.options.shard_bytes,
        span=bounds(settings.part, source.count, settings.batch),
        stops_at_failures=stops_at_failures,
        job=run.now,
        starting=starting,
    )


def _useful_workers(source: Source, settings: Settings) -> int:
    """One a core, and not more than there are units to do."""
    if source.count is None:
        return settings.workers
    return max(1, min(settings.workers, -(-source.count // settings.batch)))
