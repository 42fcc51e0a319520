"""Reads all files of a store but its shards, as far as they can be read, and lists what is wrong with them.

    survey = take_survey("train.cordwood")
    survey.manifest, survey.records, survey.plans, survey.damages.found

A store has everything twice that is needed to make sense of its shards: each of these tells its own size, and holds a
copy of the manifest. So a store that cannot be opened any more can still be looked through.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cordwood.codecs import Plan
from cordwood.common.suggest import did_you_mean_path
from cordwood.errors import CordwoodError, FormatError, UsageError
from cordwood.native import _native
from cordwood.store.checking.damage import Damage, Damages
from cordwood.store.format import manifest, plan_files, shard_index
from cordwood.store.format.manifest import Manifest
from cordwood.store.format.shard_file import read_ends, read_footer, shard_name
from cordwood.store.format.shard_index import RECORD, Records
from cordwood.store.format.unfinished import packed_samples, unfinished

_SHARDS = "shard-*.cws"


@dataclass
class StoreSurvey:
    """A store as far as it is known without its shards."""

    path: Path
    manifest: Manifest | None = None
    records: Records = field(default_factory=lambda: np.zeros(0, RECORD))
    plans: dict[str, Plan] = field(default_factory=dict)  # those that can be read, by name
    damages: Damages = field(default_factory=Damages)
    notes: list[str] = field(default_factory=list)  # what is unusual, but costs nothing
    packed: int = 0  # samples that a finished packing job has put here; a writer may have added more
    unfinished: str | None = None  # what to say of a store that is not packed to its end

    @property
    def samples(self) -> int:
        """How many samples there should be."""
        return int(self.records["first"][-1] + self.records["count"][-1]) if len(self.records) else 0

    @property
    def size(self) -> int:
        """Bytes of all shards that are there."""
        return sum(path.stat().st_size for path in self.shards if path.is_file())

    @property
    def shards(self) -> list[Path]:
        """The files of the shards, by their numbers."""
        return [self.path / shard_name(number) for number in range(len(self.records))]


def take_survey(path: str | os.PathLike[str]) -> StoreSurvey:
    """Look at everything but what is in the shards; UsageError if this never was a store."""
    survey = StoreSurvey(Path(path))
    check_is_store(survey.path)
    _read_index(survey)
    _read_manifest(survey)
    _read_plans(survey)
    survey.unfinished = unfinished(survey.path)
    survey.packed = packed_samples(survey.path)
    return survey


def check_is_store(path: Path) -> None:
    """Refuse what has neither a manifest nor a shard."""
    if not path.exists():
        raise UsageError(f"{path}: no such folder{did_you_mean_path(path)}")
    if not path.is_dir():
        raise UsageError(f"{path} is a file, but a store is a folder; `cordwood inspect` checks tensor files")
    if not is_store(path) and next(path.glob(_SHARDS), None) is None:
        raise UsageError(f"{path} has neither {manifest.NAME} nor shards in it: this is no store")


def is_store(path: Path) -> bool:
    """Whether this is the folder of a store, damaged or not."""
    return (path / manifest.NAME).exists() or (path / shard_index.NAME).exists() or (path / shard_name(0)).exists()


def _read_index(survey: StoreSurvey) -> None:
    listed = sorted(path.name for path in survey.path.glob(_SHARDS))  # before: a writer may be adding more
    try:
        index = shard_index.read(survey.path, tolerant=True)
    except CordwoodError as error:
        survey.damages.add(Damage(shard_index.NAME, sentence(error, survey.path / shard_index.NAME)))
        return
    survey.records = index.records
    if index.mended:
        # A writer that was killed leaves an index that lacks its last records, which is no damage.
        if index.is_behind or not (survey.path / shard_index.NAME).exists():
            survey.notes.append(f"{shard_index.NAME} lacks its last records; the next writer adds them")
        else:
            what = "; ".join(one.removeprefix(f"{survey.path / shard_index.NAME}: ") for one in index.mended[:3])
            more = f"; {len(index.mended) - 3} more" if len(index.mended) > 3 else ""
            survey.damages.add(Damage(shard_index.NAME, f"{what}{more}"))
    known = {path.name for path in survey.shards}
    for name in listed:
        if name not in known:
            what = f"it is never reached: {shard_name(len(survey.records))} is missing"
            survey.damages.add(Damage(name, what))


def _read_manifest(survey: StoreSurvey) -> None:
    try:
        survey.manifest = manifest.read(survey.path)
    except CordwoodError as error:
        survey.manifest = _copied_manifest(survey)
        what = sentence(error, survey.path / manifest.NAME)
        copy = "no shard has a copy of it" if survey.manifest is None else "the shards have copies of it"
        last = survey.samples - 1
        survey.damages.add(Damage(manifest.NAME, f"{what}; {copy}", *((0, last) if last >= 0 else (None, None))))
        return
    if survey.manifest.schema is None and len(survey.records):
        last = max(survey.samples - 1, 0)
        what = "it knows of no samples, but there are shards"
        survey.damages.add(Damage(manifest.NAME, what, 0, last))
        survey.manifest = _copied_manifest(survey)


def _copied_manifest(survey: StoreSurvey) -> Manifest | None:
    """The manifest out of the footer of a shard."""
    for path in survey.shards:
        try:
            body = read_footer(path, read_ends(path)).get("store")
            found = manifest_of(body, str(path))
        except CordwoodError:
            continue
        if found.schema is not None:
            return found
    return None


def manifest_of(body: Any, where: str) -> Manifest:
    """The manifest with this body, which gets the checks of any other."""
    if not isinstance(body, dict):
        raise FormatError(f"{where}: there is no copy of the manifest in it")
    crc = f"{_native.crc32c(manifest.canonical(body)):08x}"
    whole = {"cordwood_store": list(manifest.VERSION), "body": body, "crc32c": crc}
    return manifest.from_bytes(json.dumps(whole).encode(), where)


def _read_plans(survey: StoreSurvey) -> None:
    needed = survey.manifest.plan_names if survey.manifest is not None else ()
    there = sorted(path.stem for path in (survey.path / plan_files.FOLDER).glob("*.json"))
    for name in dict.fromkeys((*needed, *filter(plan_files.is_plan_name, there))):
        path = plan_files.plan_path(survey.path, name)
        try:
            survey.plans[name] = plan_files.load(survey.path, name)
        except CordwoodError as error:
            survey.damages.add(Damage(f"{plan_files.FOLDER}/{path.name}", sentence(error, path)))


def sentence(error: Exception, path: Path) -> str:
    """What an error says of a file, without the file's name, which is told beside it, and without its advice."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).removeprefix(f"{path}: ").partition("; restore it")[0].partition(". ")[0].removesuffix(".")
