"""The progress of a packing run: what is told, where, and how often; the clock is the tests' own."""

import io
import os
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cordwood.errors import UsageError
from cordwood.packing.report.progress import PlainLines, Reporter, TerminalBar, reporter
from cordwood.packing.report.rate import PackProgress, RateMeter, line, parts

STATE = PackProgress(
    inputs=450,
    of_inputs=1000,
    samples=440,
    dropped=7,
    failed=3,
    raw_bytes=36_000_000,
    stored_bytes=2_000_000,
    seconds=9.0,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def pace_of(*states: PackProgress) -> RateMeter:
    pace = RateMeter()
    for state in states:
        pace.add(state)
    return pace


# ---- rates -----------------------------------------------------------------------------------------------------------


def test_a_rate_needs_two_moments() -> None:
    start = PackProgress(of_inputs=100)
    assert pace_of().samples_per_second is None
    assert pace_of(start).samples_per_second is None
    assert pace_of(start, start).samples_per_second is None
    assert pace_of(start).seconds_left(start) is None


def test_a_resumed_run_counts_from_where_it_began() -> None:
    start = PackProgress(inputs=900, of_inputs=1000, samples=1800, resumed=900)
    later = replace(start, inputs=910, samples=1820, seconds=5.0)
    pace = pace_of(start, later)
    assert pace.samples_per_second == 4.0
    assert pace.seconds_left(later) == 45.0


def test_the_rate_is_that_of_the_last_minute() -> None:
    pace = RateMeter()
    done = 0
    for second in range(400):
        done += 1 if second < 200 else 10
        pace.add(PackProgress(inputs=done, samples=done, seconds=float(second)))
    assert pace.samples_per_second == pytest.approx(10)


def test_many_states_in_a_moment_count_as_one() -> None:
    pace = RateMeter()
    for number in range(10_001):
        pace.add(PackProgress(inputs=number, samples=2 * number, seconds=number / 1000))
    assert pace.samples_per_second == pytest.approx(2000)
    assert len(pace._points) <= 102


def test_the_time_until_workers_are_ready_does_not_count() -> None:
    pace = pace_of(*(PackProgress(of_inputs=100, seconds=float(second)) for second in range(20)))
    before = pace.samples_per_second
    pace.add(PackProgress(inputs=1, of_inputs=100, samples=1, seconds=19.1))
    too_soon = pace.samples_per_second
    assert (before, too_soon) == (None, None)
    last = PackProgress(inputs=10, of_inputs=100, samples=10, seconds=21.0)
    pace.add(last)
    assert pace.samples_per_second == 5.0
    assert pace.seconds_left(last) == 18.0


def test_without_a_number_of_inputs_no_time_is_left() -> None:
    start = PackProgress()
    later = PackProgress(inputs=3, samples=3, seconds=1.0)
    assert pace_of(start, later).seconds_left(later) is None
    assert later.fraction is None


# ---- text ------------------------------------------------------------------------------------------------------------


def test_everything_is_told() -> None:
    pace = pace_of(PackProgress(of_inputs=1000), STATE)
    assert "  ".join(parts(STATE, pace)) == (
        "packing  45%    450/1,000  48.9 samples/s  0:11 left  3 failed  2.0 MB  18.0x smaller  7 dropped"
    )
    unknown = replace(STATE, of_inputs=None, failed=0, dropped=0)
    assert "  ".join(parts(unknown, pace)) == "packing  450  48.9 samples/s  2.0 MB  18.0x smaller"
    assert parts(PackProgress(of_inputs=0), RateMeter()) == ["packing 100%", "0/0"]
    waiting = replace(PackProgress(of_inputs=9), seconds=3.0)
    assert parts(waiting, pace_of(PackProgress(of_inputs=9), waiting)) == ["packing   0%", "0/9"]


@pytest.mark.parametrize("width", range(1, 160))
def test_a_line_fits_its_width(width: int) -> None:
    text = line(STATE, pace_of(PackProgress(of_inputs=1000), STATE), width)
    assert len(text) <= width
    assert text.startswith("packing  45%"[:width])


def test_the_bar_shows_the_fraction_and_what_matters_least_gives_way() -> None:
    pace = pace_of(PackProgress(of_inputs=1000), STATE)
    wide = line(STATE, pace, 200)
    assert f"[{'#' * 18}{'.' * 22}]" in wide
    assert "7 dropped" in wide
    assert "dropped" not in line(STATE, pace, 88)
    assert "[###.....]" in line(STATE, pace, 60)
    assert "[" not in line(STATE, pace, 40)
    assert "#" * 40 in line(replace(STATE, inputs=1000), pace, 200)
    assert "[" not in line(replace(STATE, of_inputs=None), pace, 200)


@pytest.mark.parametrize("width", [50, 60, 79, 90, 100, 120, 200])
def test_the_bar_stays_where_it_is(width: int) -> None:
    begin = PackProgress(of_inputs=1000, workers=2)
    pace, seen = RateMeter(), set()
    for state in (begin, replace(begin, inputs=5, samples=5, seconds=4.0), STATE, replace(STATE, inputs=1000)):
        pace.add(state)
        text = line(state, pace, width)
        seen.add((text.index("["), text.index("]"), text.index("/1,000")))
    assert len(seen) == 1


def test_until_the_first_input_is_done_workers_start() -> None:
    begin = PackProgress(inputs=4, of_inputs=9, resumed=4, workers=2)
    assert parts(begin, RateMeter()) == ["packing  44%", "4/9", "starting 2 workers"]
    assert "starting" not in line(replace(begin, inputs=5), RateMeter(), 80)
    assert "starting" not in line(replace(begin, workers=0), RateMeter(), 80)
    assert line(replace(begin, workers=1), RateMeter(), 80).endswith("starting 1 worker")


def test_silence_names_the_input_that_others_wait_for() -> None:
    state = replace(STATE, workers=2, waiting_for=("cat/\x1b[2J7.jpg", 12.3))
    pace = pace_of(PackProgress(of_inputs=1000), state)
    assert parts(state, pace)[2] == "at cat/\\x1b[2J7.jpg for 0:12"
    begin = PackProgress(of_inputs=9, workers=2, waiting_for=("cat/7.jpg", 75.0))  # they have started
    assert parts(begin, RateMeter()) == ["packing   0%", "0/9", "at cat/7.jpg for 1:15"]


@pytest.mark.parametrize("width", range(60, 160))
@pytest.mark.parametrize("seconds", [6, 40_000])
def test_a_long_name_is_shortened_to_what_a_line_has_room_for(width: int, seconds: float) -> None:
    state = replace(STATE, waiting_for=("/".join(["folder"] * 40) + "/7.jpg", seconds))
    text = line(state, pace_of(PackProgress(of_inputs=1000), state), width)
    assert len(text) <= width
    assert f"/7.jpg for {'0:06' if seconds == 6 else '11:06:40'}" in text
    assert text.find("]") in (line(STATE, pace_of(STATE), width).find("]"), -1 if width < 70 else None)


@pytest.mark.parametrize(
    ("values", "told"), [(36_000_000, "18.0x smaller"), (1_980_000, "same size"), (1_000_000, "2.0x larger"), (0, "")]
)
def test_it_is_told_whether_the_store_is_smaller_or_larger(values: int, told: str) -> None:
    shown = parts(PackProgress(inputs=1, raw_bytes=values, stored_bytes=2_000_000), RateMeter())
    assert shown == ["packing", "1", "2.0 MB", *([told] if told else [])]


def test_the_bar_leaves_room_for_all_that_is_usually_told() -> None:
    state = replace(STATE, dropped=0, failed=0)
    text = line(state, pace_of(PackProgress(of_inputs=1000), state), 100)
    assert text.endswith("  18.0x smaller")
    assert "[#" in text


def test_ratio_and_fraction() -> None:
    assert STATE.ratio == 18.0
    assert PackProgress().ratio is None
    assert STATE.fraction == 0.45
    assert PackProgress(inputs=5, of_inputs=4).fraction == 1.0


# ---- where it is shown -----------------------------------------------------------------------------------------------


def test_a_terminal_has_one_line_that_is_wiped(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((60, 24)))
    stream = Terminal()
    with Reporter(TerminalBar(stream), clock) as report:
        report(PackProgress(of_inputs=10))  # too soon
        clock.now += 1
        report(PackProgress(inputs=5, of_inputs=10, samples=5, seconds=1.0))
        report(PackProgress(inputs=6, of_inputs=10, samples=6, seconds=1.0))  # too soon
        clock.now += 1
        report(PackProgress(inputs=10, of_inputs=10, samples=10, seconds=2.0))
    first, second, wiped, end = stream.getvalue().split("\r")[1:]
    assert first.startswith("packing  50%  [#")
    assert second.startswith("packing 100%  [#")
    assert len(second) >= len(first.rstrip())
    assert max(len(first), len(second)) <= 59
    assert wiped == " " * len(second)
    assert end == ""


def test_elsewhere_a_line_every_ten_seconds_and_the_last_one(clock: Clock) -> None:
    stream = io.StringIO()
    with Reporter(PlainLines(stream), clock) as report:
        for second in range(25):
            clock.now = 100.0 + second
            report(PackProgress(inputs=second, of_inputs=25, samples=second, seconds=float(second)))
    assert stream.getvalue().splitlines() == [
        "packing  40%  10/25  1.0 samples/s  0:15 left",
        "packing  80%  20/25  1.0 samples/s  0:05 left",
        "packing  96%  24/25  1.0 samples/s  0:01 left",
    ]


def test_a_log_names_the_input_that_others_wait_for(clock: Clock) -> None:
    stream = io.StringIO()
    with Reporter(PlainLines(stream), clock) as report:
        for second in (3, 11, 21):
            clock.now = 100.0 + second
            report(PackProgress(inputs=2, of_inputs=25, seconds=float(second), waiting_for=("7.jpg", second - 1.0)))
    assert stream.getvalue().splitlines() == [
        "packing   8%   2/25  at 7.jpg for 0:10",
        "packing   8%   2/25  at 7.jpg for 0:20",
    ]


def test_a_short_run_is_silent_where_nobody_looks(clock: Clock) -> None:
    stream = io.StringIO()
    with reporter(None, stream, clock) as report:
        report(STATE)
    assert stream.getvalue() == ""


class Notebook:
    """Stands in for IPython in a kernel."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.handles = 0

    def get_ipython(self) -> Any:
        return SimpleNamespace(kernel=object())

    def HTML(self, text: str) -> str:  # noqa: N802 - IPython's name
        return text

    def display(self, text: str, display_id: bool) -> Any:
        assert display_id
        self.handles += 1
        self.shown.append(text)
        return SimpleNamespace(update=self.shown.append)


def test_a_notebook_has_a_bar_that_is_updated(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    stream = Terminal()
    with reporter(None, stream, clock) as report:
        clock.now += 1
        report(STATE)
        report(STATE)
        clock.now += 1
        report(replace(STATE, inputs=1000))
    assert stream.getvalue() == ""
    assert notebook.handles == 1
    assert [text.split('value="')[1].split('"')[0] for text in notebook.shown] == ["0.4500", "1.0000", "1.0000"]
    assert "3 failed" in notebook.shown[0]


def test_ipython_in_a_terminal_is_a_terminal(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    stream = Terminal()
    with reporter(True, stream, clock) as report:
        clock.now += 1
        report(STATE)
    assert "packing  45%" in stream.getvalue()


def test_a_function_is_told_everything(clock: Clock) -> None:
    told: list[PackProgress] = []
    with reporter(told.append, None, clock) as report:
        report(PackProgress(inputs=1))
        report(PackProgress(inputs=2))
    assert [state.inputs for state in told] == [1, 2]


def test_false_is_silence_and_nonsense_is_refused(clock: Clock) -> None:
    stream = Terminal()
    with reporter(False, stream, clock) as report:
        clock.now += 100
        report(STATE)
    assert stream.getvalue() == ""
    with pytest.raises(UsageError, match="progress is 3"):
        reporter(3)  # type: ignore[arg-type]


def test_a_look_at_the_source_is_told() -> None:
    state = PackProgress(inputs=256, of_inputs=10_000, samples=256, looking_at=(188, 10_000), workers=2)
    assert "looking at 188 of 10,000 inputs to choose codecs" in parts(state, RateMeter())
    assert "looking at" not in "".join(parts(replace(state, looking_at=None), RateMeter()))
