"""The examples run as they are, and what they print about sizes, sharing and sameness is so."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tests run side by side: each has a core, and threads that wait for each other would be slow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the script prints."""
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    out, _ = capsys.readouterr()
    return out


def test_every_example_is_listed_and_says_how_it_is_run() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[(\w+\.py)\]\(\1\) \|", page, re.MULTILINE)) == SCRIPTS
    for name in SCRIPTS:
        assert f"\n    python examples/{name}\n" in (EXAMPLES / name).read_text(encoding="utf-8")
        assert f"test_{name.removesuffix('.py')}" in globals()


@pytest.mark.slow
def test_full_disk(capsys: pytest.CaptureFixture[str]) -> None:
    out = run("full_disk.py", capsys)
    sizes = [int(size.replace(",", "")) for size in re.findall(r"^.{30} +([\d,]+) +[\d.]+$", out, re.MULTILINE)]
    slices, clones, zipped, ours, cord, store = sizes
    assert "all came back bit for bit" in out
    assert slices > 10 * clones
    assert clones > ours > 2 * zipped > 2 * cord
    assert cord > store


def test_shared_storage(capsys: pytest.CaptureFixture[str]) -> None:
    out = run("shared_storage.py", capsys)
    rows = re.findall(r"([\d,]+) bytes   shared: (yes|no)", out)
    sizes = [int(size.replace(",", "")) for size, _ in rows]
    assert [shared for _, shared in rows] == ["yes", "no", "yes", "yes"]
    assert sizes[0] > 4_000_000
    assert max(sizes[1:]) < 10_000
    assert "shares with 1" in out
    assert "lies in 16 bytes" in out


@pytest.mark.slow
def test_slow_transpose(capsys: pytest.CaptureFixture[str]) -> None:
    out = run("slow_transpose.py", capsys)
    assert "strides (1, 1024), contiguous: False" in out
    assert "The doctor: " in out
    assert re.search(r"as written: [\d.]+ ms a step; contiguous: [\d.]+ ms a step", out)
    assert "the same picture was learned: yes" in out


@pytest.mark.slow
def test_starving_loader(capsys: pytest.CaptureFixture[str]) -> None:
    out = run("starving_loader.py", capsys)
    before, _, after = out.partition("\nPacked once: ")
    assert before.startswith("Before: ")
    assert after.startswith("48 samples\n")
    assert re.search(r"^  waiting for data +[\d.]+ +[\d.]+ +-?[+\d.]+$", after, re.MULTILINE)


def test_train_from_store(capsys: pytest.CaptureFixture[str]) -> None:
    out = run("train_from_store.py", capsys)
    first, last = map(float, re.findall(r"32 steps, loss ([\d.]+) -> ([\d.]+)", out)[0])
    assert last < first
    assert "stopped after 10 steps" in out
    assert "went on to 32 steps; the losses are the same: yes" in out
