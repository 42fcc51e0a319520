"""Closer looks at a fetch."""

import builtins
import io
import sys
import zlib
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from cordwood.doctor.probes.fetch.closer_look import Profile, Sampling, bytes_read


def decode() -> bytes:
    return zlib.decompress(zlib.compress(bytes(100_000)))


def collate() -> list[int]:
    return sorted(range(1000))


def test_a_profile_tells_getting_from_collating() -> None:
    look = Profile()
    look.begin()
    decode()
    look.collating()
    collate()
    look.end()
    look.end()
    stages = {function.name: function.stage for function in look.functions()}
    assert stages["decode"] == "transform"
    assert stages["zlib.decompress"] == "decode"
    assert stages["collate"] == "collate"
    assert stages["sorted"] == "collate"
    assert look.refused == ""
    assert sys.getprofile() is None


def test_a_profiler_of_the_users_is_left_alone() -> None:
    def theirs(frame: FrameType, event: str, argument: Any) -> None:
        pass

    look = Profile()
    sys.setprofile(theirs)
    try:
        look.begin()
        decode()
        look.collating()
        look.end()
        still = sys.getprofile()
    finally:
        sys.setprofile(None)
    assert still is theirs
    assert "the script profiles itself" in look.refused
    assert look.functions() == {}


def sampled(look: Sampling) -> None:
    look.begin()
    try:
        work(look)
    finally:
        look.end()


def work(look: Sampling) -> None:
    while not look.lines:
        decode()


def test_samples_name_the_users_lines() -> None:
    look = Sampling(sampled.__code__)
    sampled(look)
    (file, line, function), *_ = look.lines
    assert file == __file__
    assert function in ("work", "decode")
    assert line > sampled.__code__.co_firstlineno or function == "decode"
    assert 0 < sum(look.lines.values()) <= look.sampled_ns


def test_only_lines_inside_the_fetch_count() -> None:
    def outermost() -> None:
        pass

    def inner() -> None:
        pass

    look = Sampling(outermost.__code__)
    assert look._users_line(((outermost.__code__, 3),)) is None  # the fetch itself is not the user's
    assert look._users_line(((inner.__code__, 5),)) is None  # this one is no part of any fetch
    assert look._users_line(()) is None
    inside = look._users_line(((inner.__code__, 5), (outermost.__code__, 3)))
    assert inside == (__file__, 5, inner.__qualname__)


def test_files_that_are_opened_are_noted(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(bytes(5000))
    before = builtins.open, io.open
    look = Sampling(sampled.__code__)
    look.begin()
    with open(tmp_path / "a", "rb") as file:  # noqa: PTH123
        file.read()
    (tmp_path / "b").read_bytes()
    look.end()
    assert (builtins.open, io.open) == before
    assert look.files == [str(tmp_path / "a"), str(tmp_path / "b")]
    if bytes_read() is not None:
        assert look.read is not None
        assert look.read[0] >= 10_000


def test_an_open_that_somebody_else_replaced_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def theirs(*arguments: Any, **options: Any) -> Any:
        return io.open(*arguments, **options)  # noqa: UP020

    monkeypatch.setattr(builtins, "open", theirs)
    look = Sampling(sampled.__code__)
    look.begin()
    assert builtins.open is theirs
    look.end()
    assert builtins.open is theirs
