"""``cw.pack``: checks its arguments, then runs the job, an update or a dry run."""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cordwood.common.arguments import checks_keywords, whole_number
from cordwood.common.resources import default_threads
from cordwood.errors import PackError, UsageError
from cordwood.packing.dry_run import estimate
from cordwood.packing.journal.failure_policy import Failures
from cordwood.packing.journal.part import bounds, parsed_part
from cordwood.packing.pack_run import OneRun, Settings, job_of
from cordwood.packing.report.estimate import Estimate
from cordwood.packing.report.progress import PackProgress, reporter
from cordwood.packing.report.startup_cost import measured
from cordwood.packing.report.summary import Packed
from cordwood.packing.transform.transform import Transform, prepare_transform
from cordwood.sources import MAX_PIXELS, Source, SourceOptions, find
from cordwood.store import Field
from cordwood.store.writing.options import checked_options

MOST_WORKERS = 1024


@checks_keywords("cw.pack", {"num_workers": "is called workers here"})
def pack(
    source: Any,
    dest: str | os.PathLike[str],
    transform: Any = None,
    *,
    batched: bool = False,
    batch_size: int = 64,
    workers: int | None = None,
    seed: int = 0,
    goal: str | None = None,
    fields: Mapping[str, Field] | None = None,
    shard_bytes: int | None = None,
    on_error: str = "fail",
    max_errors: int = 100,
    retries: int = 2,
    source_kind: str | None = None,
    decode: str = "tensor",
    decode_size: int | None = None,
    max_pixels: int = MAX_PIXELS,
    follow_links: bool = False,
    part: "str | tuple[int, int] | None" = None,
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
    ``max_pixels`` are refused. ``follow_links`` takes links that lead out of a folder.

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

    ``progress``: None shows a bar, False nothing, a function is told (`PackProgress`). ``limit`` packs nothing, tries
    so many inputs, and returns an `Estimate` of size, time and use.
    """
    size = whole_number("batch_size", batch_size, 1, 1 << 20)
    settings = Settings(
        checked_options(goal, shard_bytes, fields),
        size if batched else 1,
        default_threads() if workers is None else whole_number("workers", workers, 0, MOST_WORKERS),
        whole_number("seed", seed, -(1 << 63), (1 << 63) - 1, "a whole number from -2**63 to 2**63 - 1"),
        whole_number("retries", retries, 0, (1 << 31) - 1) if on_error == "retry" else 0,
        parsed_part(part),
        accept_changed_transform,
    )
    dest = Path(dest).absolute()
    failures = Failures(on_error, max_errors, dest.with_name(f"{dest.name}.errors.jsonl"))
    step = prepare_transform(transform, batched=batched, version=version)
    kept = frozenset(name for name, field in settings.options.fields.items() if field.keep_encoded)
    images = SourceOptions(decode, decode_size, max_pixels, kept, follow_links)
    found = find(source, source_kind, images)
    _check_place(found, dest)
    if decode == "pil" and transform is None and "decoders" in found.describe():
        raise UsageError("decode='pil' is for a transform that takes PIL images, and there is none: leave it out")
    if workers is None:
        settings = replace(settings, workers=_useful_workers(found, settings))
    if limit is not None:
        return _estimated(found, dest, step, settings, limit, stops_at_failures=on_error == "fail")
    try:
        with reporter(progress) as report:
            run = OneRun(found, dest, step, settings, failures)
            packed = run.update(report) if update else run.run(report)
    except PackError as error:
        if error.__cause__ is None:
            raise
        # An input failed, which its cause tells about; the frames of the loop that noticed it tell nobody anything.
        raise error.with_traceback(None) from error.__cause__
    if packed.failed:
        warnings.warn(
            f"{packed.failed:,} of {packed.inputs:,} inputs failed and were left out: {packed.errors} tells why",
            stacklevel=3,  # behind the check of keywords
        )
    return packed


def _check_place(source: Source, dest: Path) -> None:
    """A store in the folder that it is packed from would be an input of the next run."""
    path = source.describe().get("path")
    if isinstance(path, str) and dest.resolve().is_relative_to(Path(path).resolve()):
        raise UsageError(f"{dest} is inside of {path}, which is packed: name a place outside of it")


def _estimated(
    source: Source, dest: Path, transform: Transform, settings: Settings, limit: int, *, stops_at_failures: bool
) -> Estimate:
    def starting() -> float:
        return measured(job_of(source, transform, settings), settings.workers) if settings.workers else 0.0

    return estimate(
        source,
        transform,
        dest,
        limit=limit,
        workers=settings.workers,
        batch=settings.batch,
        seed=settings.seed,
        goal=settings.options.goal,
        fields=settings.options.fields,
        shard_bytes=settings.options.shard_bytes,
        span=bounds(settings.part, source.count, settings.batch),
        stops_at_failures=stops_at_failures,
        starting=starting,
    )


def _useful_workers(source: Source, settings: Settings) -> int:
    """One a core, and not more than there are units to do."""
    if source.count is None:
        return settings.workers
    return max(1, min(settings.workers, -(-source.count // settings.batch)))
