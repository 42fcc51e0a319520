"""Reads and writes the codec plans of a store: one file each in ``plans/``, named by a hash of its bytes.

    name = write(store, plan)        # "9f86d081884c7d65"
    plan = load(store, name)

A file's name says what its bytes must be, so a damaged or exchanged plan is found out when it is loaded.
"""

import errno
import hashlib
import os
import re
from pathlib import Path

from cordwood.codecs import Plan
from cordwood.common.atomic_file import replacing
from cordwood.common.files import read_all
from cordwood.errors import FormatError, StorageError

FOLDER = "plans"
_NAME = re.compile(r"[0-9a-f]{16}")
_MOST_BYTES = 1 << 30  # a plan owns at most some palettes, 64 tables and a dictionary


def is_plan_name(name: object) -> bool:
    """Whether this can be a plan's name: 16 hexadecimal digits, so no path can hide in it."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def plan_name(text: bytes) -> str:
    """The name of a plan's file with these bytes."""
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def plan_path(store: str | os.PathLike[str], name: str) -> Path:
    """Where a plan is kept."""
    return Path(store) / FOLDER / f"{name}.json"


def found(store: str | os.PathLike[str]) -> list[str]:
    """The names of all plans of a store: one that was merged has some that its manifest does not name."""
    return sorted(path.stem for path in (Path(store) / FOLDER).glob("*.json") if is_plan_name(path.stem))


def write(store: str | os.PathLike[str], plan: Plan) -> str:
    """Keep a plan, durably, and tell its name; one that is there already is left alone."""
    text = plan.to_json().encode()
    name = plan_name(text)
    path = plan_path(store, name)
    try:
        path.parent.mkdir(exist_ok=True)
        if path.read_bytes() == text:
            return name
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StorageError(error.errno, f"{error.strerror or error}: the plan cannot be kept", str(path)) from error
    with replacing(path, durable=True) as file:
        file.write(text)
    return name


def load(store: str | os.PathLike[str], name: str) -> Plan:
    """The plan of that name."""
    path = plan_path(store, name)
    if not is_plan_name(name):
        raise FormatError(f"{name!r} is not the name of a plan, which is 16 hexadecimal digits")
    try:
        text = read_all(path, "the plan", _MOST_BYTES)
    except StorageError as error:
        if error.errno != errno.ENOENT:
            raise
        raise FormatError(
            f"{path}: the plan is not there, and frames that use it cannot be read: restore the file from a copy"
        ) from None
    if plan_name(text) != name:
        raise FormatError(
            f"{path}: the plan's bytes have the hash {plan_name(text)}, but its name says {name}: the file is damaged; "
            "restore it from a copy"
        )
    try:
        return Plan.from_json(text)
    except FormatError as error:
        raise FormatError(f"{path}: {error}", error.reason) from None


def remove_others(store: str | os.PathLike[str], names: set[str]) -> None:
    """Remove plans that no field names: those of a writer that was killed before its first shard."""
    folder = Path(store) / FOLDER
    if not folder.is_dir():
        return
    for path in folder.glob("*.json"):
        if is_plan_name(path.stem) and path.stem not in names:
            path.unlink(missing_ok=True)
