"""Going on with a job: only with the same source, options, transform and part; else it says what differs."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.errors import FormatError, PackError, UsageError
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.numbers import Numbers, numbers_of, pack
from tests.store.support.photos import files_of

COUNT = 400


@pytest.fixture
def dest() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made / "s"


class Stop(Exception):  # noqa: N818 - no error
    """Stops a job from its progress."""


def stop_at(inputs: int) -> Any:
    def stop(state: Any) -> None:
        if state.inputs >= inputs:
            raise Stop

    return stop


def begin(source: Any, dest: Path, transform: Any = None, **options: Any) -> None:
    """A job that is stopped in the middle of it."""
    with pytest.raises(Stop):
        pack(source, dest, transform, **options, progress=stop_at(300))


def doubled(sample: dict[str, Any]) -> dict[str, Any]:
    return {"number": 2 * sample["number"]}


def tripled(sample: dict[str, Any]) -> dict[str, Any]:
    return {"number": 3 * sample["number"]}


def test_the_same_call_goes_on_and_does_nothing_twice(dest: Path) -> None:
    begin(Numbers(COUNT), dest, doubled)
    packed = pack(Numbers(COUNT), dest, doubled)
    assert packed.resumed_inputs >= 300
    assert numbers_of(dest) == [2 * number for number in range(COUNT)]
    before = files_of(dest)
    again = pack(Numbers(COUNT), dest, doubled)
    assert (again.samples, again.resumed_inputs, again.shards) == (COUNT, COUNT, 1)
    assert any("complete" in note for note in again.notes)
    assert files_of(dest) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 1}, "the options had seed 0, and have 1 now"),
        ({"shard_bytes": 5000}, r"the options had shard_bytes \d+, and have 5000 now"),
        ({"goal": "small"}, 'the options had goal "balanced", and have "small" now'),
        ({"fields": {"number": cw.Field(classes=[str(number) for number in range(COUNT)])}}, "the options had fields"),
        ({"batched": True, "batch_size": 5}, "the options had batch_size null, and have 5 now"),
        ({"part": "1/2"}, "holds the whole, and part 1 of 2 is asked for"),
        ({"version": "2"}, "version"),
    ],
)
@pytest.mark.parametrize("complete", [False, True])
def test_other_options_are_refused(dest: Path, options: dict[str, Any], words: str, complete: bool) -> None:
    if complete:
        pack(Numbers(COUNT), dest, doubled)
    else:
        begin(Numbers(COUNT), dest, doubled)
    before = files_of(dest)
    with pytest.raises(UsageError, match=words):
        pack(Numbers(COUNT), dest, doubled, **options)
    assert files_of(dest) == before


def test_another_transform_is_refused_unless_it_is_accepted(dest: Path) -> None:
    begin(Numbers(COUNT), dest, doubled)
    with pytest.raises(UsageError, match=r"doubled.*tripled.*accept_changed_transform=True"):
        pack(Numbers(COUNT), dest, tripled)
    packed = pack(Numbers(COUNT), dest, tripled, accept_changed_transform=True)
    first = packed.resumed_inputs
    assert first >= 300
    assert numbers_of(dest) == [number * (2 if number < first else 3) for number in range(COUNT)]


def test_what_came_to_nothing_may_be_done_in_another_way(dest: Path) -> None:
    def fails(sample: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("not yet")

    with pytest.raises(PackError, match="not yet"):
        pack(Numbers(COUNT), dest, fails)
    with pytest.raises(UsageError, match="the options had seed"):
        pack(Numbers(COUNT), dest, doubled, seed=1)
    pack(Numbers(COUNT - 1), dest, doubled)  # no sample of the other transform is there
    assert numbers_of(dest) == [2 * number for number in range(COUNT - 1)]


SCRIPT = """
import sys
import cordwood as cw

def prepare(sample):
    return {{"number": sample["number"] + {shift}}}  # {comment}

class Few:
    def __len__(self):
        return 20
    def __getitem__(self, number):
        return {{"number": number}}

if __name__ == "__main__":
    packed = cw.pack(Few(), sys.argv[1], transform=prepare, workers=0, progress=False)
    print(packed.resumed_inputs, flush=True)
"""


@pytest.mark.slow
def test_a_script_and_its_module_are_the_same(dest: Path, tmp_path: Path) -> None:
    script = tmp_path / "job_script.py"

    def write(shift: int, comment: str) -> None:
        script.write_text(SCRIPT.format(shift=shift, comment=comment))

    def run(*arguments: str) -> str:
        done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True)
        return done.stdout + done.stderr

    by_name = ("-c", f"import job_script, cordwood as cw\nfrom job_script import *\n{SCRIPT_CALL}", str(dest))
    write(1, "one more")
    assert run(script.name, str(dest)) == "0\n"
    assert run(*by_name) == "20\n"
    assert run("-m", "job_script", str(dest)) == "20\n"
    write(1, "another comment")
    assert run(*by_name) == "20\n"
    write(2, "another value")
    assert "the source of the transform job_script:prepare" in run(*by_name)


SCRIPT_CALL = """
import sys
print(cw.pack(Few(), sys.argv[1], transform=prepare, workers=0, progress=False).resumed_inputs)
"""


def test_another_source_is_refused(dest: Path) -> None:
    begin(Numbers(COUNT), dest)
    with pytest.raises(UsageError, match="added, removed or changed"):
        pack(Numbers(COUNT + 1), dest)
    with pytest.raises(UsageError, match=r'kind "dataset", and has "iterable" now'):
        pack(iter(Numbers(COUNT)), dest)


class Shifted(Numbers):
    """A dataset with an argument."""

    def __init__(self, by: int) -> None:
        super().__init__(COUNT)
        self.by = by

    def __getitem__(self, number: int) -> dict[str, int]:
        return {"number": number + self.by}


def shifted(by: int) -> Iterator[dict[str, int]]:
    for number in range(COUNT):
        yield {"number": number + by}


def rows(by: int) -> list[dict[str, int]]:
    return [{"number": number + by} for number in range(COUNT)]


def columns(by: int) -> dict[str, torch.Tensor]:
    return {"number": torch.arange(COUNT) + by}


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (Shifted, "tests.packing.behaviour.test_resume.Shifted"),
        (shifted, "generator shifted"),
        (rows, "builtins.list"),
        (columns, "builtins.dict"),
        (lambda by: partial(shifted, by), "functools.partial"),
    ],
)
@pytest.mark.parametrize("complete", [False, True])
def test_an_object_with_other_contents_is_refused_unless_it_is_accepted(
    dest: Path, made: Any, name: str, complete: bool
) -> None:
    """Of the same class and length: nothing else would tell that its samples are others."""
    if complete:
        pack(made(0), dest)
    else:
        begin(made(0), dest)
    before = files_of(dest)
    told = rf"^{re.escape(name)} is not what .* was packed from: .*accept_changed_transform=True"
    with pytest.raises(UsageError, match=told):
        pack(made(1000), dest)
    assert files_of(dest) == before
    packed = pack(made(1000), dest, accept_changed_transform=True)
    first = packed.resumed_inputs
    assert first == COUNT if complete else 300 <= first < COUNT
    assert numbers_of(dest) == [number + (0 if number < first else 1000) for number in range(COUNT)]


@pytest.mark.parametrize("returned", ["[{'number': n + BY} for n in range(400)]", "generator()"])
def test_a_name_that_stands_for_something_else_now_is_refused(
    dest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returned: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(by: int) -> str:
        sys.modules.pop("shifted_module", None)
        (tmp_path / "shifted_module.py").write_text(
            f"BY = {by}\ndef generator():\n    for n in range(400):\n        yield {{'number': n + {by}}}\n"
            f"def made():\n    return {returned}\n"
        )
        return "shifted_module:made"

    begin(write(0), dest)
    assert pack(write(0), dest).resumed_inputs >= 300
    with pytest.raises(UsageError, match=r"shifted_module:made is not what .* was packed from"):
        pack(write(1000), dest)
    sys.modules.pop("shifted_module", None)


@pytest.mark.parametrize("made", [Shifted, shifted, rows, columns, lambda by: partial(shifted, by)])
def test_an_equal_object_goes_on(dest: Path, made: Any) -> None:
    begin(made(5), dest)
    assert pack(made(5), dest).resumed_inputs >= 300
    assert numbers_of(dest) == list(range(5, COUNT + 5))


def test_files_that_changed_are_refused(dest: Path, tmp_path: Path) -> None:
    for number in range(5):
        torch.save({"number": number}, tmp_path / f"{number}.pt")
    with pytest.raises(PackError):
        pack(tmp_path, dest, lambda sample: 1 / (3 - sample["number"]))
    torch.save({"number": 17}, tmp_path / "5.pt")
    with pytest.raises(UsageError, match="added, removed or changed"):
        pack(tmp_path, dest, lambda sample: 1 / (3 - sample["number"]))


def test_a_store_that_pack_did_not_make_is_refused(dest: Path) -> None:
    with cw.Writer(dest) as writer:
        writer.append({"number": 1})
    before = files_of(dest)
    with pytest.raises(UsageError, match=r"was not made by cw\.pack"):
        pack(Numbers(3), dest)
    assert files_of(dest) == before


def test_a_folder_that_is_no_store_is_refused(dest: Path) -> None:
    dest.mkdir()
    (dest / "thesis.txt").write_text("all of it")
    with pytest.raises(UsageError, match=r"holds other things \(thesis.txt\)"):
        pack(Numbers(3), dest)
    assert [path.name for path in dest.iterdir()] == ["thesis.txt"]


def test_a_store_that_was_appended_to_is_refused(dest: Path) -> None:
    begin(Numbers(COUNT), dest, shard_bytes=3000)
    with cw.Writer(dest, mode="append") as writer:
        writer.append({"number": 1})
    with pytest.raises(FormatError, match="somebody else has written to it"):
        pack(Numbers(COUNT), dest, shard_bytes=3000)


def test_a_damaged_job_file_is_refused(dest: Path) -> None:
    begin(Numbers(COUNT), dest)
    path = dest / "pack.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(FormatError, match="checksum"):
        pack(Numbers(COUNT), dest)


def test_two_jobs_do_not_write_to_one_store(dest: Path) -> None:
    tried: list[str] = []

    def second(state: Any) -> None:
        if not tried:
            with pytest.raises(cw.CordwoodError) as caught:
                pack(Numbers(COUNT), dest)
            tried.append(str(caught.value))

    pack(Numbers(COUNT), dest, progress=second)
    assert "writ" in tried[0]
    assert numbers_of(dest) == list(range(COUNT))


def drops_and_copies(sample: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**sample, "noise": torch.rand(3)}] * (sample["number"] % 3)


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_merged_parts_hold_what_one_run_packs(dest: Path, parts: int) -> None:
    options: dict[str, Any] = {"shard_bytes": 1500}
    whole = pack(Numbers(100), dest, drops_and_copies, **options)
    paths = []
    for number in range(1, parts + 1):
        paths.append(dest.with_name(f"part{number}"))
        packed = pack(Numbers(100), paths[-1], drops_and_copies, part=(number, parts), **options)
        assert packed.part == (number, parts)
    cw.merge(paths, dest.with_name("all"))
    found, expected = cw.open(dest.with_name("all")), cw.open(dest)
    assert len(found) == whole.samples
    for one, other in zip(found, expected, strict=True):
        assert one["number"] == other["number"]
        assert torch.equal(one["noise"], other["noise"])


def test_batches_are_not_cut_by_parts(dest: Path) -> None:
    def told(batch: dict[str, Any]) -> dict[str, Any]:
        return {**batch, "first": batch["number"][0].repeat(len(batch["number"]))}

    found = []
    for number in (1, 2, 3):
        path = dest.with_name(f"part{number}")
        pack(Numbers(22), path, told, part=f"{number}/3", batched=True, batch_size=5)
        found += [(sample["number"], sample["first"]) for sample in cw.open(path)]
    assert found == [(number, number // 5 * 5) for number in range(22)]


def test_a_generator_has_no_parts(dest: Path) -> None:
    with pytest.raises(UsageError, match="part needs a source that knows how many inputs it has"):
        pack(({"number": number} for number in range(4)), dest, part="1/2")
    assert not dest.exists()
