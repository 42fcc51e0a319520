"""Plans as files: named by their bytes, and believed only if the name fits."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from cordwood import codecs
from cordwood.errors import FormatError, StorageError
from cordwood.store.format import plan_files


@pytest.fixture
def plan() -> codecs.Plan:
    images = [np.arange(64, dtype=np.uint8).reshape(8, 8) * k for k in range(8)]
    return codecs.plan(images, "small", own=True)


def test_a_plan_comes_back(plan: codecs.Plan, tmp_path: Path) -> None:
    name = plan_files.write(tmp_path, plan)
    assert plan_files.load(tmp_path, name) == plan
    path = tmp_path / "plans" / f"{name}.json"
    assert path.read_bytes() == plan.to_json().encode()
    assert name == hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def test_writing_it_again_changes_nothing_and_mends_damage(plan: codecs.Plan, tmp_path: Path) -> None:
    name = plan_files.write(tmp_path, plan)
    path = plan_files.plan_path(tmp_path, name)
    before = path.stat()
    assert plan_files.write(tmp_path, plan) == name
    assert path.stat().st_ino == before.st_ino
    path.write_bytes(b"damaged")
    assert plan_files.write(tmp_path, plan) == name
    assert plan_files.load(tmp_path, name) == plan


def test_every_damage_is_found(plan: codecs.Plan, tmp_path: Path) -> None:
    name = plan_files.write(tmp_path, plan)
    path = plan_files.plan_path(tmp_path, name)
    data = path.read_bytes()
    for at in range(0, len(data), 5):
        broken = bytearray(data)
        broken[at] ^= 4
        path.write_bytes(broken)
        with pytest.raises(FormatError, match=f"{name}.json: the plan's bytes have the hash"):
            plan_files.load(tmp_path, name)
    path.unlink()
    with pytest.raises(FormatError, match="the plan is not there"):
        plan_files.load(tmp_path, name)


def test_what_is_no_plan_but_has_the_right_name(tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    for text in (b"{}", b"[", b"\xff", b'{"cordwood_plan": 9}'):
        name = plan_files.plan_name(text)
        plan_files.plan_path(tmp_path, name).write_bytes(text)
        with pytest.raises(FormatError, match=name):
            plan_files.load(tmp_path, name)


@pytest.mark.parametrize("name", ["", "../../../../etc/passwd", "0" * 15, "0" * 17, "G" * 16, "0" * 16 + "\n"])
def test_names_that_cannot_be_are_never_looked_for(name: str, tmp_path: Path) -> None:
    assert not plan_files.is_plan_name(name)
    with pytest.raises(FormatError, match="not the name of a plan"):
        plan_files.load(tmp_path, name)


def test_only_plans_that_nobody_names_are_removed(plan: codecs.Plan, tmp_path: Path) -> None:
    plan_files.remove_others(tmp_path, set())
    name = plan_files.write(tmp_path, plan)
    other = plan_files.write(tmp_path, codecs.plan([np.zeros(3)], "raw"))
    (tmp_path / "plans" / "mine.json").write_text("not a plan's name")
    plan_files.remove_others(tmp_path, {name})
    assert sorted(path.name for path in (tmp_path / "plans").iterdir()) == sorted([f"{name}.json", "mine.json"])
    assert not plan_files.plan_path(tmp_path, other).exists()


def test_a_plan_that_cannot_be_kept(plan: codecs.Plan, tmp_path: Path) -> None:
    (tmp_path / "plans").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="the plan cannot be kept"):
        plan_files.write(tmp_path, plan)
