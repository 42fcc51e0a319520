"""Reads and writes ``pack.json``: what a store is packed from, so that a later run resumes only the same job.

    {"cordwood_pack": [1, 0], "source": {...}, "fingerprint": "...", "transform": {...}, "options": {...},
     "part": null, "complete": false, "totals": null, "crc32c": "..."}

No time is in it: a job that was stopped and resumed ends with the bytes of one that was not.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from cordwood.common.atomic_file import replacing
from cordwood.common.files import read_all
from cordwood.common.text import brief, reason_of
from cordwood.errors import FormatError, Reason, UsageError
from cordwood.native import _native
from cordwood.packing.journal.inputs import Totals
from cordwood.packing.transform.identity import difference
from cordwood.store import Field
from cordwood.store.format.manifest import canonical
from cordwood.store.writing.options import Options

NAME: Final = "pack.json"
VERSION: Final = (1, 0)
UPDATING: Final = "updating:"  # before the fingerprint of a list of inputs that a store is not up to date with
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class JobFile:
    """The contents of ``pack.json``. `part` is (k, n) of a part, counted from 1; `totals` are there when complete."""

    source: dict[str, Any]
    fingerprint: str | None
    transform: dict[str, Any]
    options: dict[str, Any]
    part: tuple[int, int] | None = None
    complete: bool = False
    totals: Totals | None = None
    contents: str | None = None  # a hash of the Python object that samples come from
    code: str | None = None  # a hash of the object's functions alone; earlier versions did not record it

    @property
    def under_update(self) -> bool:
        """Whether the store was being brought up to date when this was written."""
        return self.fingerprint is not None and self.fingerprint.startswith(UPDATING)

    def completed(self, totals: Totals) -> "JobFile":
        """The same job, when everything is packed."""
        return replace(self, complete=True, totals=totals)

    def to_json(self) -> dict[str, Any]:
        """As in the file, without the checksum."""
        return {
            "cordwood_pack": list(VERSION),
            "source": self.source,
            "fingerprint": self.fingerprint,
            "contents": self.contents,
            "code": self.code,
            "transform": self.transform,
            "options": self.options,
            "part": None if self.part is None else list(self.part),
            "complete": self.complete,
            "totals": None if self.totals is None else self.totals.to_json(),
        }


def job_options(options: Options, batch_size: int | None, seed: int) -> dict[str, Any]:
    """What changes the stored bytes, beside the source and the transform."""
    manifest = options.manifest()
    return {
        "goal": manifest.goal,
        "shard_bytes": manifest.shard_bytes,
        "fields": {name: _asked(field) for name, field in options.fields.items()},
        "batch_size": batch_size,
        "seed": seed,
    }


def _asked(field: Field) -> dict[str, Any]:
    # Jobs that were begun before fields could be optional know nothing of it.
    return {name: value for name, value in asdict(field).items() if name != "optional" or value}


def write(store: Path, job: JobFile) -> None:
    """Put the file in its place, durably."""
    body = json.loads(json.dumps(job.to_json()))
    body["crc32c"] = f"{_native.crc32c(canonical(body)):08x}"
    with replacing(store / NAME, durable=True) as file:
        file.write(json.dumps(body, indent=1).encode() + b"\n")


def read(store: Path) -> JobFile | None:
    """The job of a store; None if there is none. FormatError if the file is not what was written."""
    path = store / NAME
    if not path.exists():
        return None
    try:
        found = json.loads(read_all(path, "the job", _MOST_BYTES).decode())
        return _job(found)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: {error if isinstance(error, FormatError) else reason_of(error)}") from None


def _job(found: Any) -> JobFile:
    if not isinstance(found, dict) or "cordwood_pack" not in found:
        raise FormatError("this is an object with a member 'cordwood_pack', which is missing here")
    version = found["cordwood_pack"]
    if not isinstance(version, list) or len(version) != 2 or version[0] != VERSION[0]:
        raise FormatError(
            f"version {brief(version)}, but this Cordwood reads version {VERSION[0]}: upgrade it", Reason.VERSION
        )
    told = found.pop("crc32c", None)
    crc = f"{_native.crc32c(canonical(found)):08x}"
    if told != crc:
        raise FormatError(f"the checksum is {crc}, but {brief(told)} was written: the file is damaged or was edited")
    part, totals = found.get("part"), found.get("totals")
    objects = [found.get(name) for name in ("source", "transform", "options")]
    pair = part is None or (isinstance(part, list) and len(part) == 2 and all(type(one) is int for one in part))
    if not pair or not all(isinstance(one, dict) for one in objects):
        raise FormatError("the job is not told as it should be")
    return JobFile(
        found["source"],
        found.get("fingerprint"),
        found["transform"],
        found["options"],
        None if part is None else (part[0], part[1]),
        found.get("complete") is True,
        None if totals is None else Totals.from_json(totals),
        found.get("contents"),
        found.get("code"),
    )


def check_same(
    store: Path,
    before: JobFile,
    now: JobFile,
    *,
    accept_changed_transform: bool,
    nothing_packed: bool = False,
    how_inputs_changed: Callable[[], str] = lambda: "files were added, removed or changed",
) -> None:
    """Whether a job goes on with what another one began: UsageError says what differs.

    Where nothing is packed yet, it may take other inputs and another transform; the options are fixed.
    """
    told = json.loads(json.dumps(now.to_json()))
    for what, has_or_have, old, new in (
        ("the source", "has", before.source, told["source"]),
        ("the options", "have", before.options, told["options"]),
    ):
        different = _first_difference(old, new)
        if different is not None:
            key, had, has = different
            raise UsageError(
                f"{store} was begun with other settings: {what} had {key} {_shown(key, had)}, and {has_or_have} "
                f"{_shown(key, has)} now. Use the same to go on, or pack to another path, or delete {store} to "
                "pack it anew"
            )
    if before.part != now.part:
        raise UsageError(
            f"{store} holds {_part(before.part)}, and {_part(now.part)} is asked for: every part has a store of its own"
        )
    if before.under_update and not now.under_update:
        raise UsageError(f"an update of {store} was interrupted: go on with update=True (--update)")
    if nothing_packed:
        return
    if before.fingerprint != now.fingerprint:
        way = "" if before.complete else "Put them back as they were to go on; or keep the finished shards, and b"
        raise UsageError(
            f"the inputs are not those that {store} was begun with: {how_inputs_changed()}. {way or 'B'}ring the store "
            "up to date with update=True (--update)"
        )
    if not accept_changed_transform:
        _check_hash(store, now, before.contents, now.contents, "its code, its arguments or its data are others")
    changed = difference(before.transform, now.transform)
    if changed is not None and not accept_changed_transform:
        raise UsageError(
            f"{changed}: {store} would hold samples of both. Pack to another path, or delete {store} to pack it anew, "
            "or, if the samples are the same, go on with accept_changed_transform=True (--accept-changed-transform)"
        )


def check_code(store: Path, before: JobFile, now: JobFile) -> None:
    """UsageError if the Python object that samples come from has other functions; its data may differ."""
    _check_hash(store, now, before.code, now.code, "its code has changed")


def _check_hash(store: Path, now: JobFile, had: str | None, has: str | None, what: str) -> None:
    if had != has and None not in (had, has):
        raise UsageError(
            f"{now.source.get('object')} is not what {store} was packed from: {what}. Pack to another path, or delete "
            f"{store} to pack it anew, or, if its samples are the same, go on with accept_changed_transform=True "
            "(--accept-changed-transform)"
        )


def _first_difference(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, Any, Any] | None:
    """The first member that differs, as ``fields.image.goal``, and both of its values; one that is missing is null."""
    for key in dict.fromkeys([*old, *new]):
        had, has = old.get(key), new.get(key)
        if isinstance(had, dict) and isinstance(has, dict):
            inner = _first_difference(had, has)
            if inner is not None:
                return f"{key}.{inner[0]}", *inner[1:]
        elif had != has:
            return key, had, has
    return None


def _shown(key: str, value: Any) -> str:
    # Sources whose samples are those of first frames say nothing of frames, as before there was a choice.
    text = json.dumps("first" if key == "frames" and value is None else value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _part(part: tuple[int, int] | None) -> str:
    return "the whole" if part is None else f"part {part[0]} of {part[1]}"


def require(store: Path) -> JobFile:
    """The job of a store that must have one."""
    found = read(store)
    if found is None:
        raise UsageError(
            f"{store} was not made by cw.pack: there is no {NAME} in it that tells what it was packed from; pack to "
            "another place"
        )
    return found
