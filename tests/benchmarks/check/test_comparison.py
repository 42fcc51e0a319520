"""`bench check` tells what got worse: beyond the noise, in the wrong direction, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.check.__main__ import COMMITTED, main
from benchmarks.check.comparison import DRIFT, compare, tolerance
from benchmarks.harness.outcome import Chart, Table
from benchmarks.harness.timing import Spread


def result(quick: bool = False, tables: tuple[Table, ...] = (), **measured: Spread | None) -> dict[str, Any]:
    return {
        "quick": quick,
        "environment": {"processor": "an abacus", "cores given": "2"},
        "goals": [
            {"key": key.replace("_", "-"), "measured": vars(spread) if spread else None}
            for key, spread in measured.items()
        ],
        "tables": [table.to_json() for table in tables],
    }


def timed(median: float, width: float = 0.02, count: int = 15) -> Spread:
    return Spread(median, median * (1 - width / 2), median * (1 + width / 2), count)


def words(before: dict[str, Any], after: dict[str, Any]) -> dict[str, str]:
    return {change.what: change.word for change in compare(before, after)}


@pytest.mark.parametrize(
    ("now", "word"), [(4.0, "same"), (3.7, "same"), (3.3, "worse"), (4.4, "same"), (4.8, "better"), (2.0, "worse")]
)
def test_a_speed_is_worse_when_it_falls_beyond_the_noise(now: float, word: str) -> None:
    assert words(result(small_speed_webp=timed(4.0)), result(small_speed_webp=timed(now))) == {"small-speed-webp": word}


@pytest.mark.parametrize(("now", "word"), [(1.0, "same"), (1.3, "worse"), (0.8, "better")])
def test_a_time_is_worse_when_it_grows(now: float, word: str) -> None:
    assert words(result(pt_load=timed(1.0)), result(pt_load=timed(now))) == {"pt-load": word}


def test_the_wider_the_quartiles_the_more_is_noise() -> None:
    wide = result(small_speed_webp=timed(4.0, width=0.5, count=7))
    assert words(wide, result(small_speed_webp=timed(3.3, width=0.5, count=7))) == {"small-speed-webp": "same"}
    assert tolerance(timed(1, 0.5), timed(1), quick=False) > tolerance(timed(1), timed(1), quick=False) > DRIFT
    assert tolerance(timed(1, 0.5, 100), timed(1), quick=False) < tolerance(timed(1, 0.5, 10), timed(1), quick=False)


def test_sizes_may_hardly_move() -> None:
    before = result(small_size_png=Spread.exact(0.700))
    assert words(before, result(small_size_png=Spread.exact(0.702))) == {"small-size-png": "same"}
    assert words(before, result(small_size_png=Spread.exact(0.710))) == {"small-size-png": "worse"}
    assert words(before, result(small_size_png=Spread.exact(0.690))) == {"small-size-png": "better"}


def test_of_a_quick_run_only_what_is_far_worse_counts() -> None:
    before = result(small_speed_webp=timed(4.0))
    assert words(before, result(quick=True, small_speed_webp=timed(2.2))) == {"small-speed-webp": "same"}
    assert words(before, result(quick=True, small_speed_webp=timed(1.5))) == {"small-speed-webp": "worse"}


@pytest.mark.parametrize(
    ("key", "was", "now", "word"),
    [
        ("doctor_found", 0.0, 0.0, "same"),
        ("doctor_found", 0.0, 1.0, "worse"),
        ("doctor_found", 1.0, 0.0, "better"),
        ("pack_overhead", -0.4, 0.3, "same"),
        ("pack_overhead", -0.4, 1.5, "worse"),
        ("store_memory", 0.03, 0.6, "same"),
        ("store_memory", 0.03, 1.1, "worse"),
    ],
)
def test_figures_without_a_scale_are_judged_by_their_goal(key: str, was: float, now: float, word: str) -> None:
    before, after = ({key: Spread.exact(value)} for value in (was, now))
    found = words(result(False, (), **before), result(False, (), **after))
    assert found == {key.replace("_", "-"): word}


def test_what_is_measured_only_once_is_told_and_is_no_regression() -> None:
    before = result(small_speed_webp=timed(4.0), pt_load=timed(1.0), balanced_speed_png=None)
    after = result(small_speed_webp=None, balanced_speed_png=timed(5.0))
    assert words(before, after) == {
        "small-speed-webp": "not measured",
        "balanced-speed-png": "new",
        "pt-load": "not measured",
    }


def test_a_goal_that_is_no_more_is_left_out() -> None:
    assert words(result(of_old=timed(1.0)), result(of_old=timed(9.0))) == {}


def curves(ours: float, limit: float) -> Table:
    chart = Chart("sizes", "size", "samples a second", [1.0, 2.0], ["memory copy"])
    table = Table("Curves", [("way", "text"), ("1", "bytes"), ("2", "bytes")], chart=chart)
    table.add("ours, raw", timed(ours), None)
    table.add("LMDB", timed(ours), timed(ours))
    table.add("memory copy", timed(limit), timed(limit))
    return table


def test_of_curves_ours_is_compared_as_a_part_of_the_limit() -> None:
    before = result(tables=(curves(100, 1000),))
    assert words(before, result(tables=(curves(200, 2000),))) == {"sizes: ours, raw, 1": "same"}  # a faster machine
    assert words(before, result(tables=(curves(100, 2000),))) == {"sizes: ours, raw, 1": "worse"}


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    folder = tmp_path / "committed"
    folder.mkdir()
    (folder / "codecs.json").write_text(json.dumps(result(small_speed_webp=timed(4.0))))
    return folder


@pytest.mark.parametrize(("now", "code", "told"), [(4.1, 0, "nothing got worse"), (2.0, 1, "1 got worse")])
def test_result_files_are_compared(
    now: float, code: int, told: str, committed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = result(small_speed_webp=timed(now))
    other["environment"]["processor"] = "another"
    (tmp_path / "codecs.json").write_text(json.dumps(other))
    assert main(["--results", str(tmp_path), "--committed", str(committed)]) == code
    said = capsys.readouterr().out
    assert told in said
    assert "other processor: an abacus then, another now" in said
    assert "Tensor files: no committed result" in said
    assert any(line.split()[:2] == ["worse", "small-speed-webp"] for line in said.splitlines()) == (code == 1)


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A suite that writes what it is told to, and remembers how it was called."""
    told: dict[str, Any] = {"now": 4.0, "words": []}

    def run(command: list[str], cwd: Path) -> None:
        told["words"] = command[1:]
        if told["now"] is not None:
            Path(command[-1]).write_text(json.dumps(result(small_speed_webp=timed(told["now"]))))

    monkeypatch.setattr("benchmarks.check.__main__.subprocess.run", run)
    return told


@pytest.mark.parametrize(("now", "code"), [(4.0, 0), (2.0, 1), (None, 1)])
def test_a_suite_is_run_and_compared(now: Any, code: int, suite: dict[str, Any], committed: Path) -> None:
    suite["now"] = now
    assert main(["--quick", "codecs", "--committed", str(committed)]) == code
    assert suite["words"][:-1] == ["-m", "benchmarks.codecs", "--quick", "--json"]


def test_an_unknown_suite_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["nothing"])
    assert stopped.value.code == 2
    assert "there is no suite nothing; there are codecs, tensors" in capsys.readouterr().err


def test_committed_results_are_no_worse_than_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--results", str(COMMITTED)]) == 0
    assert "worse" not in capsys.readouterr().out.replace("nothing got worse", "")
