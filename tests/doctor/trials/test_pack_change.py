"""The command and the lines that a report shows run as they stand, and training gets the same samples."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from torch.utils.data import DataLoader, RandomSampler, WeightedRandomSampler

import cordwood as cw
from cordwood.doctor.code.loader_call import iterated_name
from cordwood.doctor.evidence.evidence import LoaderSeen
from cordwood.doctor.evidence.findings import Abstain, CodeLine
from cordwood.doctor.measure.determinism import digest
from cordwood.doctor.trials.pack_change import KeptLoading, PackChange, change_for
from cordwood.doctor.trials.pack_part import part_to_pack
from cordwood.sources.importing import made
from tests.doctor.support.runs import run_preloaded

NUMBERS = [0, 5, 11]
DATASET = """
import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __init__(self, size=12):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, number):
        return torch.full((4,), float(number) ** 2), number
"""
MAIN = """
def main():
    data = Squares()
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=2)  # here
    for x, y in loader:
        assert torch.equal(x[:, 0], y.float() ** 2)
        print("labels", *y.tolist())


if __name__ == "__main__":
    main()
"""


def written(folder: Path, text: str, name: str = "train") -> CodeLine:
    path = folder / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(dedent(text))
    lines = path.read_text().splitlines()
    return CodeLine(str(path), next(number for number, line in enumerate(lines, 1) if "# here" in line))


def change_in(place: CodeLine, loader: DataLoader[Any], kept: KeptLoading | None = None) -> PackChange:
    seen = LoaderSeen(loader, place=None, made_at=place)
    digests = [digest(loader.dataset[number]) for number in NUMBERS]
    return change_for(seen, NUMBERS, digests, kept=kept, seconds=300)


def applied(change: PackChange) -> None:
    """Do to the script what the change says."""
    assert change.file is not None
    lines = Path(change.file).read_text().splitlines()
    margin = " " * (len(lines[change.first_line - 1]) - len(lines[change.first_line - 1].lstrip()))
    lines[change.first_line - 1 : change.last_line] = [indent(line, margin) for line in change.lines]
    Path(change.file).write_text("\n".join(lines) + "\n")


def run(folder: Path, *command: str) -> str:
    done = run_preloaded(list(command), folder)
    assert done.code == 0, done.errors
    return done.output


def labels_of(output: str) -> list[int]:
    return sorted(int(word) for line in output.splitlines() for word in line.split()[1:] if line.startswith("labels"))


@pytest.fixture
def squares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The dataset as a module, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "squares", raising=False)
    (tmp_path / "squares.py").write_text(DATASET)
    return made("squares:Squares", "source")


@pytest.mark.slow
def test_the_command_and_the_line_run(tmp_path: Path, squares: Any) -> None:
    place = written(tmp_path, DATASET + MAIN)
    change = change_in(place, DataLoader(squares, batch_size=4, shuffle=True))
    assert change.command == "cordwood pack train:Squares train.cordwood"
    assert change.lines[0] == "import cordwood as cw"
    assert change.lines[1].startswith('loader = cw.Loader(cw.open("train.cordwood"), batch_size=4, shuffle=True)')
    assert change.text.splitlines()[:3] == [change.command, "", f"# in train.py, in place of line {place.line}:"]
    run(tmp_path, "-m", *shlex.split(change.command))
    applied(change)
    assert labels_of(run(tmp_path, "train.py")) == list(range(12))


@pytest.mark.slow
def test_a_script_in_another_folder(tmp_path: Path, squares: Any) -> None:
    place = written(tmp_path, DATASET + MAIN, "jobs/train")
    change = change_in(place, DataLoader(squares, batch_size=4, shuffle=True))
    assert change.command == "PYTHONPATH=jobs cordwood pack train:Squares train.cordwood"
    path, _, command = change.command.partition(" ")
    environment = os.environ | {"PYTHONPATH": path.partition("=")[2]}
    subprocess.run([sys.executable, "-m", *shlex.split(command)], cwd=tmp_path, env=environment, check=True)
    assert len(cw.open(tmp_path / "train.cordwood")) == 12


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        MAIN.replace("Squares()", "Squares(size=12)"),  # no name that makes it without arguments
        MAIN.replace('if __name__ == "__main__":\n    main()', "main()"),  # trains when it is imported
    ],
    ids=["arguments", "no guard"],
)
def test_lines_of_python_where_there_is_no_command(tmp_path: Path, squares: Any, text: str) -> None:
    place = written(tmp_path, DATASET + text)
    change = change_in(place, DataLoader(squares, batch_size=4, shuffle=True))
    assert change.command is None
    assert change.lines[1].startswith('cw.pack(data, "train.cordwood")')
    applied(change)
    for _ in range(2 if "size=12" in text else 1):  # packs, and finds the store
        assert labels_of(run(tmp_path, "train.py")) == list(range(12))


@pytest.mark.slow
def test_a_name_that_gives_other_samples_is_not_shown(tmp_path: Path, squares: Any) -> None:
    other = DATASET.replace("** 2", "** 3")
    change = change_in(written(tmp_path, other + MAIN), DataLoader(squares, batch_size=4, shuffle=True))
    assert change.command is None


@pytest.mark.slow
def test_random_steps_stay_in_the_loader(tmp_path: Path, squares: Any) -> None:
    text = (DATASET + MAIN).replace("self.size = size", "self.size, self.transform = size, flip")
    text = text.replace("return torch.full((4,), float(number) ** 2), number", "return self.made(number), number")
    text = text.replace(
        "    def __len__",
        """    def made(self, number):
        x = torch.full((4,), float(number) ** 2)
        return x if self.transform is None else self.transform(x)

    def __len__""",
    )
    text = text.replace(
        "class Squares", "def flip(x):\n    return x * (1 - 2 * torch.randint(2, ()))\n\n\nclass Squares"
    )
    text = text.replace("torch.equal(x[:, 0], y", "torch.equal(x[:, 0].abs(), y")
    place = written(tmp_path, text)
    dataset = made("train:Squares", "source")
    part = part_to_pack(dataset, NUMBERS)
    assert part.kept is not None
    change = change_in(place, DataLoader(dataset, batch_size=4, shuffle=True), part.kept)
    assert change.command is None
    applied(change)
    assert labels_of(run(tmp_path, "train.py")) == list(range(12))
    sys.modules.pop("train")


def lines_for(tmp_path: Path, text: str, loader: DataLoader[Any]) -> str:
    """The line that makes the loader, without looking for a command."""
    place = written(tmp_path, f"import x\nmain()\nloader = {text}  # here\n")
    return change_in(place, loader).lines[-1]


def pad(samples: list[Any]) -> Any:
    return samples


@pytest.mark.parametrize(
    ("text", "options", "line"),
    [
        ("DataLoader(data, 4)", {"batch_size": 4}, "batch_size=4"),
        ("DataLoader(data, args.size, True)", {"batch_size": 4, "shuffle": True}, "batch_size=args.size, shuffle=True"),
        ("DataLoader(data, **options)", {"batch_size": 3, "shuffle": True}, "batch_size=3, shuffle=True"),
        ("DataLoader(data, drop_last=True)", {"drop_last": True}, "batch_size=1, drop_last=True"),
        ("DataLoader(data, collate_fn=pad)", {"collate_fn": pad}, "batch_size=1, collate=pad"),
        (
            "DataLoader(data, sampler=by_weight)",
            {"sampler": WeightedRandomSampler([1.0] * 12, 12)},
            "batch_size=1, sampler=by_weight",
        ),
        (
            "DataLoader(data, pin_memory=True, num_workers=3, prefetch_factor=2, timeout=5)",
            {"pin_memory": True},
            "batch_size=1",
        ),
    ],
)
def test_options_of_the_loader(tmp_path: Path, squares: Any, text: str, options: dict[str, Any], line: str) -> None:
    with_options = DataLoader(squares, **options)
    assert lines_for(tmp_path, text, with_options) == f'loader = cw.Loader(cw.open("train.cordwood"), {line})  # here'


def test_ranks_are_the_loaders_own_business(tmp_path: Path, squares: Any) -> None:
    from torch.utils.data.distributed import DistributedSampler

    sampler: DistributedSampler[Any] = DistributedSampler(squares, num_replicas=2, rank=1)
    found = lines_for(tmp_path, "DataLoader(data, sampler=mine)", DataLoader(squares, sampler=sampler))
    assert "shuffle=True" in found
    assert "sampler" not in found


@pytest.mark.parametrize(
    ("options", "said"),
    [({"collate_fn": pad}, "collate_fn"), ({"sampler": RandomSampler(range(12), replacement=True)}, "sampler")],
)
def test_what_the_call_does_not_show_cannot_be_written(
    tmp_path: Path, squares: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(Abstain, match=said):
        lines_for(tmp_path, "DataLoader(data, **options)", DataLoader(squares, **options))


def test_a_store_that_exists_is_left_alone(tmp_path: Path, squares: Any) -> None:
    (tmp_path / "train.cordwood").mkdir()
    assert '"train-2.cordwood"' in lines_for(tmp_path, "DataLoader(data)", DataLoader(squares))


def test_a_loader_that_is_made_elsewhere(tmp_path: Path, squares: Any) -> None:
    place = written(tmp_path, "for x, y in self.loader:  # here\n    pass\n")
    assert iterated_name(place) == "self.loader"
    change = change_for(LoaderSeen(DataLoader(squares, 2), place), NUMBERS, [], seconds=1)
    assert change.command is None
    assert change.lines[1].startswith('cw.pack(self.loader.dataset, "train.cordwood")')
    assert change.lines[2] == 'self.loader = cw.Loader(cw.open("train.cordwood"), batch_size=2)'
    assert "before line 1" in change.text
