"""Files to be trimmed, and what is in them: for the tests of `trim`."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tensors.support import craft
from tests.tensors.support.objects import CATALOGUE, floats
from tests.tensors.support.same import assert_same, assert_shares_alike

each_case = pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, case in CATALOGUE.items() if case.torch_saves]
)


def wasteful() -> dict[str, torch.Tensor]:
    """Four views of 40 kB; two of them overlap."""
    base = floats(10_000)
    return {"a": base[100:200], "b": base[150:260], "columns": base.view(100, 100)[70:, 3:5], "one": base[4000]}


def write(obj: Any, path: Path, **options: Any) -> Path:
    torch.save(obj, path, **options)
    return path


def records(path: Path) -> dict[str, bytes]:
    """Every record of an archive, by its name inside."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def storages(path: Path) -> dict[str, int]:
    return {
        name.removeprefix("data/"): len(content) for name, content in records(path).items() if name.startswith("data/")
    }


def check(obj: Any, path: Path, *, weights_only: bool = False) -> None:
    """torch reads it, and finds what was there."""
    loaded = torch.load(path, weights_only=weights_only)
    assert_same(obj, loaded, strides=False)
    assert_shares_alike(obj, loaded)


def crafted(path: Path, *opcodes: bytes, content: dict[str, bytes] | None = None, **options: Any) -> Path:
    extra = {"version": b"3\n"} | options.pop("extra", {})
    path.write_bytes(
        craft.archive(craft.pickled(*opcodes), content or {"0": bytes(range(160))}, extra=extra, **options)
    )
    return path


def view(**options: Any) -> bytes:
    """Two rows of three out of forty floats, every second one."""
    return craft.tensor("0", 40, **{"offset": 10, "size": (2, 3), "stride": (10, 2), **options})


def zipped_again(path: Path, method: int) -> Path:
    outer = path.with_suffix(".zip")
    with zipfile.ZipFile(outer, "w", method) as archive:
        archive.write(path, "inside.pt")
    return outer


def deflated(path: Path) -> Path:
    """As a tool might repack it."""
    repacked = path.with_name("deflated.pt")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(repacked, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    return repacked


INPUTS: dict[str, Callable[[Any, Path], Path]] = {
    "zip": write,
    "legacy": lambda obj, path: write(obj, path, _use_new_zipfile_serialization=False),
    "deflated": lambda obj, path: deflated(write(obj, path)),
    "zipped again": lambda obj, path: zipped_again(write(obj, path), zipfile.ZIP_DEFLATED),
    "zipped again, stored": lambda obj, path: zipped_again(write(obj, path), zipfile.ZIP_STORED),
    "legacy, zipped again": lambda obj, path: zipped_again(
        write(obj, path, _use_new_zipfile_serialization=False), zipfile.ZIP_DEFLATED
    ),
    "legacy, protocol 4": lambda obj, path: write(obj, path, pickle_protocol=4, _use_new_zipfile_serialization=False),
    "protocol 3": lambda obj, path: write(obj, path, pickle_protocol=3),
    "protocol 4": lambda obj, path: write(obj, path, pickle_protocol=4),
    "protocol 5": lambda obj, path: write(obj, path, pickle_protocol=5),
}
each_input = pytest.mark.parametrize("form", INPUTS)
