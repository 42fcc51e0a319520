"""A suite's parts: which run, what becomes of one that cannot, which files are written, what the exit code says."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.harness import suite
from benchmarks.harness.goals import BY_KEY, GOALS
from benchmarks.harness.methods import METHODS, TITLES
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.suite import Suite, main, run
from benchmarks.harness.timing import MismatchError, Spread, UnavailableError
from cordwood.cli import main as command


def part(title: str, *keys: str, measured: float | None = None, error: Exception | None = None) -> ModuleType:
    """A part that finds one figure for all its goals, or fails."""
    module = ModuleType(title)

    def measure(settings: Settings) -> Outcome:
        if error is not None:
            raise error
        return Outcome([Table(title, [])], {key: Spread.exact(measured or 0.0) for key in keys})

    vars(module).update(TITLE=title, KEYS=keys, measure=measure)
    return module


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results go to a folder of the test's own."""
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    monkeypatch.setattr(suite, "wait_for_quiet", lambda: None)
    (tmp_path / "docs").mkdir()
    return tmp_path


def test_parts_are_chosen_by_their_title_or_goals() -> None:
    both = Suite("codecs", "", (part("Photographs", "raw-batch"), part("Weights", "tokens-size")))
    assert both.chosen([]) == list(both.parts)
    assert both.chosen(["photo"]) == [both.parts[0]]
    assert both.chosen(["TOKENS"]) == [both.parts[1]]
    assert both.chosen(["nothing"]) == []


def test_a_part_that_cannot_run_says_why_and_the_rest_still_runs() -> None:
    away = part("Weights", "weights-float32-saved", error=UnavailableError("the index is away"))
    result = run(
        [away, part("Slices", "slices-size", measured=1.0)], Settings.choose(Path("none"), quick=True), "words"
    )
    verdicts = {goal["key"]: (goal["verdict"], goal["reason"]) for goal in result["goals"]}
    assert verdicts == {
        "weights-float32-saved": ("not measured", "the index is away"),
        "slices-size": ("met must", None),
    }
    assert [table["title"] for table in result["tables"]] == ["Weights", "Slices"]


@pytest.mark.parametrize(("measured", "code"), [(1.0, 0), (1.5, 1)])
def test_a_missed_goal_is_an_exit_code(measured: float, code: int) -> None:
    assert main(Suite("tensors", "", (part("Slices", "slices-size", measured=measured),)), ["--quick"]) == code


def test_a_wrong_result_ends_the_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = part("Slices", "slices-size", error=MismatchError("not what was saved"))
    assert main(Suite("tensors", "", (wrong,)), []) == 1
    assert "not what was saved" in capsys.readouterr().err
    assert not (root / "benchmarks").exists()


def test_a_complete_run_takes_its_place_beside_the_other_suites(root: Path) -> None:
    for name, key in (("codecs", "tokens-size"), ("tensors", "slices-size")):
        main(Suite(name, "", (part(name, key, measured=1.0),)), [])
    results = {file.stem: json.loads(file.read_text()) for file in (root / "benchmarks" / "results").iterdir()}
    assert {name: result["command"] for name, result in results.items()} == {
        "codecs": "cordwood bench codecs",
        "tensors": "cordwood bench tensors",
    }
    page = (root / "docs" / "benchmarks.md").read_text()
    assert BY_KEY["tokens-size"].text in page
    assert BY_KEY["slices-size"].text in page


@pytest.mark.parametrize("words", [["--quick"], ["--only", "slices"]])
def test_a_part_of_a_run_writes_only_what_it_is_told_to(root: Path, words: list[str]) -> None:
    small = Suite("tensors", "", (part("Slices", "slices-size", measured=1.0),))
    main(small, words)
    assert list(root.rglob("*.*")) == []
    main(small, [*words, "--json", str(root / "a.json"), "--markdown", str(root / "a.md")])
    assert json.loads((root / "a.json").read_text())["command"] == " ".join(["cordwood bench tensors", *words])
    assert "## Tensor files" in (root / "a.md").read_text()
    assert not (root / "docs" / "benchmarks.md").exists()


def test_a_part_is_recorded_again_and_the_result_says_so(root: Path) -> None:
    def suite_of(slices: float, small: float) -> Suite:
        parts = part("Slices", "slices-size", measured=slices), part("Small", "small-file-shutil", measured=small)
        return Suite("tensors", "", parts)

    main(suite_of(1.0, 1.0), [])
    file = root / "benchmarks" / "results" / "tensors.json"
    before = json.loads(file.read_text())
    main(suite_of(9.0, 9.0), ["--only", "slices", "--again"])
    after = json.loads(file.read_text())
    medians = {goal["key"]: goal["measured"]["median"] for goal in after["goals"]}
    assert medians == {"slices-size": 9.0, "small-file-shutil": 1.0}
    assert after["command"] == before["command"] == "cordwood bench tensors"
    (told,) = after["environment"].keys() - before["environment"].keys()
    assert told == "measured again: Slices"
    assert after["environment"][told].startswith(after["environment"]["date"][:4])
    assert told in (root / "docs" / "benchmarks.md").read_text()
    with pytest.raises(MismatchError, match="no table Other"):
        main(Suite("tensors", "", (part("Other", "slices-size", measured=1.0),)), ["--only", "other", "--again"])
    for words in (["--again"], ["--again", "--quick", "--only", "slices"]):
        with pytest.raises(SystemExit):
            main(suite_of(1.0, 1.0), words)


def test_a_word_that_no_part_has_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(Suite("tensors", "", (part("Slices", "slices-size"),)), ["--only", "nothing"])
    assert stopped.value.code == 2
    assert "no part has nothing" in capsys.readouterr().err


def test_every_goal_belongs_to_one_part_of_one_suite() -> None:
    pytest.importorskip("torch")
    from benchmarks.codecs import __main__ as codecs
    from benchmarks.doctor import __main__ as doctor
    from benchmarks.feed import __main__ as feed
    from benchmarks.pack import __main__ as pack
    from benchmarks.plans import __main__ as plans
    from benchmarks.scaling import __main__ as scaling
    from benchmarks.store import __main__ as store
    from benchmarks.tensors import __main__ as tensors

    suites = (
        codecs.SUITE,
        tensors.SUITE,
        store.SUITE,
        feed.SUITE,
        pack.SUITE,
        plans.SUITE,
        doctor.SUITE,
        scaling.SUITE,
    )
    assert [one.name for one in suites] == list(TITLES)
    keys: list[Any] = [key for one in suites for each in one.parts for key in each.KEYS]
    assert sorted(keys) == sorted(goal.key for goal in GOALS)


def test_every_suite_has_a_method_and_a_word_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(METHODS) == set(TITLES)
    with pytest.raises(SystemExit):
        command(["bench", "--help"])
    told = capsys.readouterr().out
    assert all(name in told for name in (*TITLES, "check"))


def test_make_bench_runs_every_suite() -> None:
    makefile = (Path(__file__).resolve().parents[3] / "Makefile").read_text()
    line = next(line for line in makefile.splitlines() if line.startswith("BENCH_SUITES ?="))
    assert line.partition("=")[2].split() == list(TITLES)
