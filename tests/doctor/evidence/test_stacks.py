"""Samples added up by function and by line, and the file that pstats reads."""

import io
import pstats
from pathlib import Path
from types import CodeType

import pytest

from cordwood.doctor.evidence.stacks import Stacks, StackSample

LIBRARY = "/opt/python/lib/site-packages"


def code(name: str, file: str) -> CodeType:
    """The code of a function of five lines in a file."""
    made: dict[str, object] = {}
    exec(compile(f"def {name}():\n    1\n    2\n    3\n    4\n", file, "exec"), made)
    return made[name].__code__  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("def main():\n    step()\n    log()\n    save()\n    end()\n")
    return str(path)


def test_times_are_per_step_and_by_innermost_user_line(script: str) -> None:
    main, layer = code("main", script), code("forward", f"{LIBRARY}/torch/layer.py")
    samples = [
        StackSample(8, 0.002, "forward", ((layer, 2), (main, 2))),
        StackSample(8, 0.001, "other", ((main, 3),)),
        StackSample(9, 0.003, "forward", ((layer, 2), (main, 2))),
    ]
    stacks = Stacks.of(samples, 2.0, steps=[8, 9])
    assert (stacks.samples, stacks.steps) == (3, 2)
    assert stacks.seconds == pytest.approx(0.006)
    assert {place.line: ms for place, ms in stacks.lines.items()} == pytest.approx({2: 2.5, 3: 0.5})
    assert {place.line: ms for place, ms in stacks.own_lines.items()} == pytest.approx({3: 0.5})
    assert [place.source for place in stacks.lines] == ["step()", "log()"]
    own = {function.name: (function.own_ms, function.total_ms) for function in stacks.functions}
    assert own == {"forward": pytest.approx((2.5, 2.5)), "main": pytest.approx((0.5, 3.0))}


def test_waiting_and_other_steps_do_not_count(script: str) -> None:
    main = code("main", script)
    samples = [
        StackSample(8, 0.002, "wait", ((main, 2),)),
        StackSample(9, 0.002, "other", ((main, 3),)),
        StackSample(10, 0.002, "other", ((main, 4),)),
    ]
    stacks = Stacks.of(samples, 2.0, steps=[8, 9])
    assert [place.line for place in stacks.lines] == [3]
    assert stacks.lines[next(iter(stacks.lines))] == pytest.approx(1.0)
    assert len(stacks.taken) == 3


def test_frames_of_the_doctor_and_those_outside_the_script_are_left_out(script: str) -> None:
    import cordwood.doctor.evidence.stacks

    doctor = code("timed", cordwood.doctor.evidence.stacks.__file__)
    launcher = code("launch", f"{LIBRARY}/launcher.py")
    stacks = Stacks.of(
        [StackSample(8, 0.002, "other", ((doctor, 2), (code("main", script), 2), (launcher, 2)))], 2.0, [8]
    )
    assert [function.name for function in stacks.functions] == ["main"]
    assert list(stacks.lines) == list(stacks.own_lines)


def test_the_command_that_runs_the_script_is_no_part_of_it(script: str, tmp_path: Path) -> None:
    """An installed command is a file as the user's own are."""
    import cordwood.doctor.run.script

    run, command = code("_run", cordwood.doctor.run.script.__file__), code("main", str(tmp_path / "bin" / "cordwood"))
    stacks = Stacks.of([StackSample(8, 0.002, "other", ((code("step", script), 2), (run, 2), (command, 2)))], 2.0, [8])
    assert [function.name for function in stacks.functions] == ["step"]
    assert [[frame.co_name for frame, _ in sample.stack] for sample in stacks.taken] == [["step"]]


def test_work_on_arrays_is_told_apart(script: str) -> None:
    main, percentile = code("main", script), code("percentile", f"{LIBRARY}/numpy/lib/function_base.py")
    stacks = Stacks.of([StackSample(8, 0.002, "other", ((percentile, 2), (main, 3)))], 2.0, [8])
    assert {place.line: ms for place, ms in stacks.array_lines.items()} == pytest.approx({3: 2.0})


def test_the_spread_shrinks_with_samples(script: str) -> None:
    main = code("main", script)
    few = Stacks.of([StackSample(8, 0.001, "other", ((main, 2),))] * 10, 2.0, [8])
    many = Stacks.of([StackSample(8, 0.001, "other", ((main, 2),))] * 1000, 2.0, [8])
    assert few.spread_ms(5.0) / 10 == pytest.approx((0.25 / 10) ** 0.5)
    assert many.spread_ms(500.0) / 1000 == pytest.approx((0.25 / 1000) ** 0.5)
    assert few.spread_ms(0.0) == pytest.approx(1.0)  # one sample more or less
    assert Stacks().spread_ms(1.0) == 0.0


def test_pstats_reads_the_file(script: str, tmp_path: Path) -> None:
    main, inner = code("main", script), code("inner", script)
    samples = [
        StackSample(8, 0.25, "other", ((inner, 2), (inner, 3), (main, 2))),
        StackSample(8, 0.5, "wait", ((main, 3),)),
    ]
    path = tmp_path / "train.prof"
    Stacks.of(samples, 2.0, steps=[8]).write_pstats(path)
    stats = pstats.Stats(str(path), stream=io.StringIO())
    table = stats.stats  # type: ignore[attr-defined]
    assert stats.total_tt == pytest.approx(0.75)  # type: ignore[attr-defined]
    calls, _, own, total, callers = table[(script, 1, "inner")]
    assert (calls, own, total) == (1, pytest.approx(0.25), pytest.approx(0.25))
    assert set(callers) == {(script, 1, "inner"), (script, 1, "main")}
    assert table[(script, 1, "main")][2:4] == (pytest.approx(0.5), pytest.approx(0.75))
    stats.sort_stats("cumulative").print_stats()
