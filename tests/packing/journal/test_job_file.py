"""``pack.json``: what was written is read, and nothing else is taken for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from cordwood.errors import FormatError, UsageError
from cordwood.packing.journal import job_file as jobs
from cordwood.packing.journal.inputs import Totals
from cordwood.packing.journal.job_file import JobFile

JOB = JobFile(
    {"kind": "images", "path": "/photos"},
    "f00d",
    {"name": "prep:f", "hash": "1234", "version": None},
    {"seed": 0, "goal": None},
    part=(3, 16),
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert jobs.read(tmp_path) is None
    for job in (JOB, JOB.completed(Totals(inputs=5, samples=9)), JobFile({}, None, {}, {})):
        jobs.write(tmp_path, job)
        assert jobs.read(tmp_path) == job
    assert [path.name for path in tmp_path.iterdir()] == ["pack.json"]


def test_damage_is_found_wherever_it_is(tmp_path: Path) -> None:
    jobs.write(tmp_path, JOB)
    path = tmp_path / "pack.json"
    data = path.read_bytes()
    for place in range(0, len(data), 3):
        if not data[place : place + 1].strip():
            continue  # spaces mean nothing
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(FormatError, match=r"pack\.json"):
            jobs.read(tmp_path)
    for size in (0, 1, len(data) // 2):
        path.write_bytes(data[:size])
        with pytest.raises(FormatError, match=r"pack\.json"):
            jobs.read(tmp_path)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "cordwood_pack"),
        ({"cordwood_pack": [2, 0]}, "version"),
        ({"cordwood_pack": "1"}, "version"),
        ("[" * 100_000, "pack.json"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, found: Any, words: str) -> None:
    (tmp_path / "pack.json").write_text(found if isinstance(found, str) else json.dumps(found))
    with pytest.raises(FormatError, match=words):
        jobs.read(tmp_path)


def test_a_store_without_a_job_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"was not made by cw\.pack"):
        jobs.require(tmp_path)
