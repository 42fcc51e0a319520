"""``cordwood pack``: what it takes, what it prints, its exit codes, and being stopped."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cordwood as cw
from cordwood import cli
from cordwood.cli.verbs.pack import _size, _transform
from cordwood.errors import UsageError
from cordwood.packing.workers import pool
from tests.images.pictures import animated, scenes
from tests.packing.support.forkedworkers import launch
from tests.sources import photos

Output = pytest.CaptureFixture[str]
MODULE = """
import os, signal, threading
from pathlib import Path
import torch

class Numbers:
    def __len__(self):
        return 60

    def __getitem__(self, number):
        return {"x": torch.full((20,), float(number)), "y": torch.tensor(float(number)), "n": number}

def numbers():
    return Numbers()

def doubled(sample):
    return {**sample, "x": sample["x"] * 2}

def half(value):
    return value / 2

def hangs_at_seven(sample):
    if sample["n"] == 7:
        threading.Event().wait()
    return sample

def not_seven(sample):
    if sample["n"] == 7:
        raise ValueError("seven is broken")
    return sample

def odd(sample):
    return sample if sample["n"] % 2 else None

def whole_batch(batch):
    return {**batch, "size": torch.full((len(batch["n"]),), len(batch["n"]))}

def stopped_once(sample):
    flag = Path(os.environ["STOP_FLAG"])
    if sample["n"] == 33 and not flag.exists():
        flag.touch()
        os.kill(int(os.environ.get("STOP_PID", os.getpid())), signal.SIGTERM)
    return sample
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cli_prep.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cli_prep", raising=False)
    return tmp_path


def run(*words: Any) -> int:
    return cli.main(["pack", "cli_prep:numbers", "x.cordwood", "--workers", "0", *map(str, words)])


def test_a_function_of_samples(capsys: Output) -> None:
    assert run("--transform", "cli_prep:doubled") == 0
    out, err = capsys.readouterr()
    assert re.search(r"^samples +60$", out, re.MULTILINE)
    assert "torch.save would have taken" in out
    assert out.endswith("next: ds = cw.open('" + str(Path("x.cordwood").absolute()) + "')\n")
    assert err == ""
    ds = cw.open("x.cordwood")
    assert len(ds) == 60
    assert ds[3]["x"][0] == 6


def test_functions_of_fields() -> None:
    assert run("--transform", "x=cli_prep:half", "--transform", "y=cli_prep:half", "--quiet") == 0
    sample = cw.open("x.cordwood")[3]
    assert (sample["x"][0], sample["y"], sample["n"]) == (1.5, 1.5, 3)


def test_batches() -> None:
    assert run("--transform", "cli_prep:whole_batch", "--batched", "--batch-size", 16, "--quiet") == 0
    assert cw.open("x.cordwood").column("size").tolist() == [16] * 48 + [12] * 12


def test_options_reach_the_store(capsys: Output) -> None:
    assert run("--goal", "raw", "--shard-bytes", "2kB", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["shards"] > 1
    assert (found["samples"], found["failed"], found["path"]) == (60, 0, str(Path("x.cordwood").absolute()))
    inspected: Any = cw.inspect("x.cordwood")
    assert (inspected.goal, inspected.shard_bytes) == ("raw", 2000)


def test_frames(folder: Path, capsys: Output) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "a.gif").write_bytes(animated("GIF", scenes(3)))
    words = ["pack", "in", "--workers", "0", "--json"]
    assert cli.main([*words, "first.cordwood"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert note.startswith("1 of 1 input (such as a.gif) has more than one frame")
    assert note.endswith('frames="all" (--frames all) gives all of them')
    assert cli.main([*words, "all.cordwood", "--frames", "all"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
    assert cw.open("all.cordwood")[0]["image"].shape == (3, 3, 30, 40)
    assert cli.main([*words, "first.cordwood", "--limit", "5"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [note]


def test_parts(capsys: Output) -> None:
    assert run("--part", "2/3", "--json") == 0
    assert json.loads(capsys.readouterr().out)["part"] == [2, 3]
    assert cw.open("x.cordwood").column("n").tolist() == list(range(20, 40))


def test_dropped_inputs_are_no_finding(capsys: Output) -> None:
    assert run("--transform", "cli_prep:odd") == 0
    assert re.search(r"^dropped +30  the transform returned nothing$", capsys.readouterr().out, re.MULTILINE)


def test_an_input_that_fails_is_named_with_its_traceback(capsys: Output) -> None:
    assert run("--transform", "cli_prep:not_seven") == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("cordwood: input 7 ")  # what to read is the last line
    assert "ValueError: seven is broken" in err
    assert "in not_seven\n" in err
    assert "src/cordwood" not in err


def test_an_input_that_hangs_is_named(folder: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool._Worker, "_launch", launch)
    words = ["--workers", 1, "--timeout", 0.5, "--transform", "cli_prep:hangs_at_seven"]
    assert run(*words) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cordwood: input 7 failed: TimeoutError: it took longer than timeout=0.5 seconds, and ")
    assert run(*words, "--on-error", "skip") == 1
    assert re.search(r"^failed +1  told in ", capsys.readouterr().out, re.MULTILINE)
    assert run("--timeout", 5) == 2
    assert "workers=0 (--workers 0) has none" in capsys.readouterr().err


@pytest.mark.parametrize("debug", [False, True])
def test_bad_data_are_told_in_one_line(
    debug: bool, folder: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORDWOOD_LOG", "debug" if debug else "")
    (folder / "photos").mkdir()
    (folder / "photos" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 and no more")
    assert cli.main(["pack", "photos", "y.cordwood", "--workers", "0", "--from", "unlabelled", "--quiet"]) == 3
    err = capsys.readouterr().err
    last = err.splitlines()[-1]
    assert last.startswith("cordwood: input 0 (broken.jpg) failed: FormatError: ")
    assert last.count("broken.jpg") == 1
    assert last.endswith("(--on-error skip) goes on without it")
    assert ("Traceback" in err) == debug
    assert (err == f"{last}\n") == (not debug)


def test_inputs_that_were_skipped_are_a_finding(capsys: Output) -> None:
    assert run("--transform", "cli_prep:not_seven", "--on-error", "skip") == 1
    log = Path("x.cordwood.errors.jsonl").absolute()
    assert re.search(rf"^failed +1  told in {re.escape(str(log))}$", capsys.readouterr().out, re.MULTILINE)
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["input"] == 7
    assert len(cw.open("x.cordwood")) == 59


def test_too_many_errors_in_a_row(capsys: Output) -> None:
    assert run("--transform", "cli_prep:not_seven", "--on-error", "skip", "--max-errors", 0) == 3
    assert "(--max-errors)" in capsys.readouterr().err


def test_a_dry_run_writes_nothing(folder: Path, capsys: Output) -> None:
    before = sorted(folder.rglob("*.cordwood*"))
    assert run("--limit", 10, "--transform", "cli_prep:doubled") == 0
    out = capsys.readouterr().out
    assert out.startswith("dry run: 10 inputs of 60 of ")
    assert "a sample" in out.splitlines()[-1]
    assert sorted(folder.rglob("*.cordwood*")) == before
    assert run("--limit", 10, "--json") == 0
    assert json.loads(capsys.readouterr().out)["of_inputs"] == 60
    assert run("--limit", 10, "--quiet") == 0
    assert capsys.readouterr().out.startswith("dry run")


@pytest.mark.parametrize("words", [[], ["--limit", "5"], ["--update"]])
def test_a_source_without_inputs_is_wrong_use(words: list[str], folder: Path, capsys: Output) -> None:
    (folder / "cli_none.py").write_text("def none():\n    return iter(())\n")
    assert cli.main(["pack", "cli_none:none", "x.cordwood", "--workers", "0", *words]) == 2
    assert re.match(r"cordwood: cli_none:none has no inputs, .* nothing to pack", capsys.readouterr().err)
    assert not Path("x.cordwood").exists()


@pytest.mark.parametrize("way", ["fail", "skip", "retry"])
def test_a_dry_run_says_that_the_real_one_would_stop(way: str, capsys: Output) -> None:
    assert run("--limit", 60, "--transform", "cli_prep:not_seven", "--on-error", way) == 0
    out = capsys.readouterr().out
    assert "seven is broken" in out
    assert ("packing would stop at the first input that fails" in out) == (way == "fail")


def test_quiet_is_quiet(capsys: Output) -> None:
    assert run("--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_a_changed_transform_is_refused_unless_it_is_accepted(folder: Path, capsys: Output) -> None:
    assert run("--transform", "cli_prep:not_seven", "--quiet") == 3
    (folder / "cli_prep.py").write_text(MODULE.replace('if sample["n"] == 7', 'if sample["n"] == 700'))
    sys.modules.pop("cli_prep")
    assert run("--transform", "cli_prep:not_seven", "--quiet") == 2
    assert "cli_prep:not_seven" in capsys.readouterr().err
    assert run("--transform", "cli_prep:not_seven", "--quiet", "--accept-changed-transform") == 0
    assert len(cw.open("x.cordwood")) == 60


def test_a_version_is_a_part_of_the_transform(capsys: Output) -> None:
    assert run("--transform", "cli_prep:doubled", "--transform-version", "1", "--quiet") == 0
    assert run("--transform", "cli_prep:doubled", "--transform-version", "2", "--quiet") == 2
    assert "version was '1' and is '2' now" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--goal", "tiny"], ["--shard-bytes", "much"], ["--workers", "two"]])
def test_words_that_cannot_be_meant(words: list[str], capsys: Output) -> None:
    with pytest.raises(SystemExit) as stop:
        run(*words)
    assert stop.value.code == 2
    assert words[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--transform", "nothing:here"], "nothing"),
        (["--transform", "cli_prep.py:doubled"], "cli_prep.py"),
        (["--transform", "a=cli_prep:half", "--transform", "a=cli_prep:half"], "twice"),
        (["--batched"], "batched"),
        (["--part", "5"], "part"),
        (["--limit", "0"], "limit"),
        (["--seed", str(1 << 70)], "seed"),
        (["--from", "nonsense"], "nonsense"),
    ],
)
def test_wrong_use_is_told_in_a_sentence(words: list[str], told: str, capsys: Output) -> None:
    assert run(*words) == 2
    err = capsys.readouterr().err
    assert told in err
    assert err.startswith("cordwood: ")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("67108864", 67108864),
        ("64MB", 64_000_000),
        ("64MiB", 64 << 20),
        ("64m", 64_000_000),
        ("1.5 GB", 1_500_000_000),
        ("1.5GiB", 3 << 29),
        ("2kB", 2000),
        ("1T", 10**12),
        ("5B", 5),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert _size(text) == size


def test_transforms() -> None:
    assert _transform([]) is None
    assert _transform(["a:b"]) == "a:b"
    assert _transform(["image=a:b", "meta.size=c:d.e"]) == {"image": "a:b", "meta.size": "c:d.e"}
    with pytest.raises(UsageError, match="only one"):
        _transform(["a:b", "c:d"])


# ---- stopped ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_sigterm_stops_where_the_same_command_goes_on(workers: int, folder: Path) -> None:
    program = (
        "import os, sys; os.environ['STOP_PID'] = str(os.getpid()); from cordwood.cli import main; sys.exit(main())"
    )
    words = [
        "pack",
        "cli_prep:numbers",
        "x.cordwood",
        "--transform",
        "cli_prep:stopped_once",
        "--workers",
        str(workers),
    ]

    def again() -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, "STOP_FLAG": str(folder / "flag")}
        return subprocess.run([sys.executable, "-c", program, *words], env=env, capture_output=True, text=True)

    stopped = again()
    assert stopped.returncode == 130, stopped.stderr
    assert stopped.stderr.startswith("cordwood: interrupted\n")
    assert str(folder / "x.cordwood") in stopped.stderr
    assert "goes on" in stopped.stderr
    done = again()
    assert done.returncode == 0, done.stderr
    assert cw.open("x.cordwood").column("n").tolist() == list(range(60))


def test_absolute_paths_in_a_manifest_are_allowed_by_an_option(folder: Path, capsys: Output) -> None:
    photos.write(folder, "elsewhere/1.png")
    (folder / "in").mkdir()
    (folder / "in" / "list.csv").write_text(f"path, age\n{folder}/elsewhere/1.png, 3\n{folder}/elsewhere/1.png,\n")
    words = ["pack", "in/list.csv", "y.cordwood", "--workers", "0"]
    assert cli.main(words) == 3
    assert "absolute_paths=True (--absolute-paths)" in capsys.readouterr().err
    assert cli.main([*words, "--absolute-paths"]) == 0
    assert "note: column 'age': 1 empty cell of 2 became NaN" in capsys.readouterr().out
