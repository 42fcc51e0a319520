"""``cw.cached`` in several processes: one packs, the others wait, and take over; scripts with and without a guard."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import cordwood as cw
from tests.packing.support import cached_job
from tests.packing.support.cached_items import Items, cached, numbered, stopped_in
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.numbers import numbers_of
from tests.store.support.photos import files_of


@pytest.fixture
def dest() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made / "x.cordwood"


@pytest.mark.parametrize("by", [cw.cached, cw.pack])
def test_a_job_that_was_stopped_is_resumed(dest: Path, by: Any) -> None:
    if by is cw.cached:
        stopped_in(numbered(*range(3000)), dest)
    else:
        with pytest.raises(ZeroDivisionError):
            by(numbered(*range(3000)), dest, workers=0, progress=lambda state: 1 // (290 // max(state.inputs, 1)))
    Items.read.clear()
    assert [sample["number"] for sample in cached(numbered(*range(3000)), dest)] == list(range(3000))
    assert Items.read[0] > 250
    whole = dest.with_name("whole")
    cached(numbered(*range(3000)), whole)
    assert files_of(dest) == files_of(whole)


class Rank:
    """A process of `cached_job`."""

    def __init__(self, dest: Path, hold_at: int = -1) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", cached_job.__name__, str(dest)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOLD_AT": str(hold_at)},
        )

    def says(self, line: str) -> None:
        """Wait until it prints this line."""
        assert self.process.stdout is not None
        for found in self.process.stdout:
            if found == f"{line}\n":
                return
        pytest.fail(f"it ended without {line!r}")

    def waits_for(self, other: "Rank") -> None:
        """Wait until it says whom it waits for."""
        assert self.process.stderr is not None
        assert f"waiting for process {other.process.pid} on " in self.process.stderr.readline()

    def ends(self) -> tuple[set[int], str]:
        """Which items it has read since, and its last line."""
        out, err = self.process.communicate("\n")
        assert self.process.returncode == 0, err
        *read, last = out.splitlines()
        return {int(line.removeprefix("read ")) for line in read}, last

    def __enter__(self) -> "Rank":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()


DONE = f"done {cached_job.COUNT} {sum(range(cached_job.COUNT))}"


@pytest.mark.slow
def test_of_several_processes_one_packs_and_the_others_wait(dest: Path) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(Rank(dest, hold_at=60))
        first.says("read 60")
        others = [stack.enter_context(Rank(dest)) for _ in range(3)]
        for other in others:
            other.waits_for(first)
        assert first.ends() == ({*range(8), *range(61, 100)}, DONE)
        for other in others:
            assert other.ends() == (set(), DONE)
    assert [path.name for path in dest.parent.iterdir()] == [dest.name]


@pytest.mark.slow
def test_those_who_wait_take_over_from_one_that_is_killed(dest: Path) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(Rank(dest, hold_at=60))
        first.says("read 60")
        others = [stack.enter_context(Rank(dest)) for _ in range(2)]
        for other in others:
            other.waits_for(first)
        first.process.kill()
        found = [other.ends() for other in others]
        assert sorted(found, key=lambda each: len(each[0])) == [(set(), DONE), ({*range(8), *range(60, 100)}, DONE)]
        whole = dest.with_name("whole")
        assert stack.enter_context(Rank(whole)).ends()[1] == DONE
    kept = [{name: data for name, data in files_of(path).items() if name != ".lock"} for path in (dest, whole)]
    assert kept[0] == kept[1]
    assert numbers_of(dest) == list(range(100))


# ---- scripts -------------------------------------------------------------------------------------------------------


def run_script(folder: Path, script: str, **modules: str) -> "subprocess.CompletedProcess[str]":
    for name, text in {**modules, "train": script}.items():
        (folder / f"{name}.py").write_text(text)
    return subprocess.run([sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, timeout=240)


DATA = """
class Numbers:
    def __len__(self):
        return 40
    def __getitem__(self, number):
        return {"number": number}
def doubled(sample):
    return {"number": 2 * sample["number"]}
"""


@pytest.mark.slow
def test_a_script_without_a_guard_packs_with_workers(tmp_path: Path) -> None:
    """Workers of the packing do not import the script; those of a DataLoader do, and find the store complete."""
    ran = run_script(
        tmp_path,
        "import cordwood as cw\nfrom torch.utils.data import DataLoader\n"
        + DATA
        + """
print("runs as", __name__, flush=True)
ds = cw.cached(Numbers(), "x.cordwood", doubled, workers=2)
if __name__ == "__main__":
    loader = DataLoader(ds, batch_size=20, num_workers=1, multiprocessing_context="spawn")
    print(sum(int(batch["number"].sum()) for batch in loader))
""",
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["runs as __main__", "runs as __mp_main__", "1560"]


@pytest.mark.slow
def test_a_script_that_spawns_workers_without_a_guard_ends_with_a_message(tmp_path: Path) -> None:
    ran = run_script(
        tmp_path,
        "import cordwood as cw\nfrom torch.utils.data import DataLoader\n"
        + DATA
        + """
print("runs as", __name__, flush=True)
ds = cw.cached(Numbers(), "x.cordwood", doubled, workers=0)
for batch in DataLoader(ds, batch_size=20, num_workers=1, multiprocessing_context="spawn"):
    pass
""",
    )
    assert ran.returncode != 0
    assert ran.stdout.splitlines() == ["runs as __main__", "runs as __mp_main__"]
    assert "if __name__ == '__main__':" in ran.stderr  # Python's own words


@pytest.mark.slow
def test_a_call_that_workers_of_the_packing_import_is_refused(tmp_path: Path) -> None:
    """They would wait for the process that waits for them."""
    ran = run_script(
        tmp_path,
        "import data\n",
        data="import cordwood as cw\n" + DATA + 'ds = cw.cached(Numbers(), "x.cordwood", doubled, workers=1)\n',
    )
    assert ran.returncode != 0
    assert "started to pack this very store" in ran.stderr
    assert 'move it into a function, or below `if __name__ == "__main__":`' in ran.stderr


@pytest.mark.slow
def test_spawned_ranks_pack_with_workers_what_their_script_defines(tmp_path: Path) -> None:
    ran = run_script(
        tmp_path,
        "import cordwood as cw\nimport torch.multiprocessing as mp\n"
        + DATA
        + """
def train(rank):
    ds = cw.cached(Numbers(), "x.cordwood", doubled, workers=1)
    assert sum(sample["number"] for sample in ds) == 1560
if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
    assert cw.cached(Numbers(), "x.cordwood", doubled, workers=0)[3]["number"] == 6
    print("good")
""",
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "good\n"
