"""``cw.salvage``: writes a new store of everything that is good in a damaged one.

Shards without damage are copied as they are. Of the others the good samples are taken, their frames byte for byte;
nothing is encoded anew. The new store is made beside its place and put there at the end, so that what has the name
that was asked for is complete.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cordwood.common.files import opened
from cordwood.common.html import Printed
from cordwood.common.tables import folded
from cordwood.errors import FormatError, UsageError
from cordwood.store.checking.shard_check import ShardFindings
from cordwood.store.checking.survey import StoreSurvey, take_survey
from cordwood.store.checking.verify import Progress, Verification, look_through, runs_text
from cordwood.store.format.manifest import Manifest
from cordwood.store.format.new_folder import beside
from cordwood.store.writing.options import checked_threads
from cordwood.store.writing.shard_copy import NewStore, copied, pieces

NOTHING_LEFT: Final = (
    "there is nothing to salvage: restore the store from a copy, or pack its source again, into a new folder"
)


@dataclass(repr=False)
class Salvaged(Printed):
    """What became of a damaged store.

    ::

        result = cw.salvage("train.cordwood", "saved.cordwood")
        print(result.kept, result.verification.lost)

    `kept` samples are in the new store, in their order; `verification` tells what is damaged in the old one, and which
    samples are lost. `notes` say what else is different.
    """

    path: str
    out: str
    kept: int
    verification: Verification
    notes: list[str]

    def __str__(self) -> str:
        lost, count = self.verification.lost, self.verification.lost_count
        what = f"{count:,} {'is' if count == 1 else 'are'} lost: {runs_text(lost)}" if lost else "none is lost"
        lines = [f"{self.out}: {self.kept:,} of {self.verification.samples:,} samples; {what}", *self.notes]
        return folded(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "path": self.path,
            "out": self.out,
            "kept": self.kept,
            "notes": self.notes,
            "verification": self.verification.to_dict(),
        }


def salvage(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    threads: int | None = None,
) -> Salvaged:
    """Write a new store of the samples all of whose fields are good; the old one is not touched.

    ::

        result = cw.salvage("train.cordwood", "saved.cordwood")

    Samples keep their order, and are numbered without gaps. A FormatError says so if nothing can be saved: no copy of
    the manifest is left, or no sample is good. It checks everything, as `verify` does; what it found is part of the
    result.
    """
    target = Path(out)
    if target.exists():
        raise UsageError(f"{target} exists already: salvage makes a new store, name another folder")
    if Path(path).resolve() in target.resolve().parents:
        raise UsageError(f"{target} is inside of {path}, which is left as it is: name another folder")
    threads = checked_threads(threads)
    survey = take_survey(path)
    manifest = survey.manifest
    if manifest is None or manifest.schema is None:
        lost = "; ".join(str(damage) for damage in survey.damages.found) or "there are no samples in it"
        raise FormatError(f"{survey.path}: nothing can be saved: {lost}; {NOTHING_LEFT}")
    with beside(target) as folder:
        rescue = _Rescue(survey, manifest, folder)
        verification = look_through(survey, progress=progress, threads=threads, each=rescue.take)
        kept = rescue.store.samples
        if not kept and verification.samples:
            raise FormatError(f"{survey.path}: nothing can be saved: no sample is good; {NOTHING_LEFT}")
        rescue.finish()
    return Salvaged(str(survey.path), str(target), kept, verification, rescue.notes)


class _Rescue:
    """The new store, and what was put into it so far."""

    def __init__(self, survey: StoreSurvey, manifest: Manifest, folder: Path) -> None:
        self.notes: list[str] = []
        # Frames that need no plan can be read without it, and later samples get the goal's usual one.
        fields = tuple(
            replace(field, plan=field.plan if field.plan in survey.plans else None) for field in manifest.fields
        )
        self.store = NewStore(folder, replace(manifest, fields=fields), link=False)
        self.store.take_plans(survey.path, survey.plans)
        self._worst: dict[str, float] = {}  # error of a field, by the footers
        self._is_guessed = False

    def take(self, found: ShardFindings) -> None:
        """Keep what is good in a shard."""
        for entry in found.footer["fields"] if found.footer is not None else ():
            error = entry.get("worst_error") if isinstance(entry, dict) else None
            if isinstance(error, float):
                self._worst[entry["name"]] = max(self._worst.get(entry["name"], 0.0), error)
        if not found.good.any():
            return
        if found.is_whole:
            self.store.take_shard(found.path)
        else:
            self._rewrite(found)

    def _rewrite(self, found: ShardFindings) -> None:
        """Write a shard of the good samples of another one."""
        shard = self.store.begin_shard(name for name in found.plans if name is not None)
        try:
            errors = self._errors(found)
            with opened(found.path, "the shard") as fd:
                layout = self.store.layout
                leaves = self.store.leaf_frames(found.path.parent, found.plans)
                for rows in pieces(layout, found.rows, found.good):
                    shard.add(copied(fd, layout, rows, leaves, errors))
            self.store.finish_shard(shard)
        except BaseException as error:
            shard.drop(error)
            raise

    def _errors(self, found: ShardFindings) -> tuple[float, ...]:
        """The worst error of each lossy field that is known: of this shard, or if its footer is lost, of all others."""
        lossy = [leaf.name for leaf in self.store.layout.schema.frames if leaf.store_as]
        if found.footer is None:
            self._is_guessed |= bool(lossy)
            return tuple(self._worst.get(name, 0.0) for name in lossy)
        told = {entry.get("name"): entry.get("worst_error") for entry in found.footer["fields"]}
        return tuple(float(told.get(name) or 0.0) for name in lossy)

    def finish(self) -> None:
        """Finish the store, and note if the worst error of a field is not known any more."""
        self.store.finish()
        if self._is_guessed:
            self.notes.append("the worst error of lossy fields is not known for all samples: a footer was lost")
