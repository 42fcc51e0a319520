"""The state and the speed of a packing run, as numbers and as text.

pace = RateMeter()
pace.add(state)
print(line(state, pace, width=100))

packing  45%  [#########...........]    451/1,000  212 samples/s  2:31 left  3 failed  12.3 MB  18.2x smaller
"""

from collections import deque
from dataclasses import dataclass

from cordwood.common.numbers import clock_text, factor, rate_text
from cordwood.common.text import human, printable, shortened

_WINDOW = 60.0  # seconds that the rate is an average over
_SHORTEST = 1.0  # seconds after which there is one
_SHORTEST_NAME = 12
_NARROWEST_BAR, _WIDEST_BAR = 8, 40
_SOON = "12:34 left"  # as wide as what the bar must leave room for
_USUAL = f"1,234 samples/s  {_SOON}  123.4 MB  12.3x smaller"  # and as what it leaves room for if it can


@dataclass(frozen=True)
class PackProgress:
    """How far a run is; what a function given as ``progress=`` gets.

    ::

        cw.pack("photos/", "photos.cordwood", progress=lambda state: print(state.samples, state.failed))

    Everything is counted from the beginning of the job, over all its runs; ``resumed`` inputs were done before this
    one began, and ``seconds`` are those of this run. ``of_inputs`` is None where nobody knows how many there are;
    ``workers`` are the processes that do the work. Where none of them has finished anything for five seconds,
    ``waiting_for`` is the input that one has worked on longest, and for how many seconds; else it is None.
    While codecs are being chosen on inputs from all over the source, ``looking_at`` is how many these are, and of how
    many; else it is None.
    """

    inputs: int = 0
    of_inputs: int | None = None
    samples: int = 0
    dropped: int = 0
    failed: int = 0
    bytes_in: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    seconds: float = 0.0
    resumed: int = 0
    workers: int = 0
    waiting_for: tuple[str, float] | None = None
    looking_at: tuple[int, int] | None = None

    @property
    def ratio(self) -> float | None:
        """Bytes of the values for one stored byte; None at the beginning."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else None

    @property
    def fraction(self) -> float | None:
        """The part of the inputs that is done, from 0 to 1; None where nobody knows."""
        if self.of_inputs is None:
            return None
        return min(1.0, self.inputs / self.of_inputs) if self.of_inputs else 1.0


class RateMeter:
    """Rates of this run over the last minute, from when the first input was done: workers take a while to start."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int, int]] = deque()

    def add(self, state: PackProgress) -> None:
        """Take another state; the first one tells where this run began."""
        point = (state.seconds, state.samples, state.inputs)
        points = self._points
        if len(points) == 1 and points[0][1:] == point[1:]:
            points[0] = point
        # Points closer to each other than this tell nothing more.
        elif len(points) > 1 and point[0] - points[-2][0] < _WINDOW / 100:
            points[-1] = point
        else:
            points.append(point)
        while len(points) > 2 and point[0] - points[1][0] >= _WINDOW:
            points.popleft()

    @property
    def samples_per_second(self) -> float | None:
        """None before anything can be told."""
        return self._rate(1)

    def seconds_left(self, state: PackProgress) -> float | None:
        """Until all inputs are done, at this pace."""
        rate = self._rate(2)
        if not rate or state.of_inputs is None:
            return None
        return max(0, state.of_inputs - state.inputs) / rate

    def _rate(self, which: int) -> float | None:
        if len(self._points) < 2 or self._points[-1][0] - self._points[0][0] < _SHORTEST:
            return None
        return (self._points[-1][which] - self._points[0][which]) / (self._points[-1][0] - self._points[0][0])


def parts(state: PackProgress, pace: RateMeter, longest_name: int = 1000) -> list[str]:
    """What there is to tell, the most important first."""
    rate, left = pace.samples_per_second, pace.seconds_left(state)
    told = [
        *_counted(state),
        _looking(state) or _starting(state),
        _waiting(state, longest_name),
        f"{rate_text(rate)} samples/s" if rate else "",
        "" if left is None else f"{clock_text(left)} left",
        f"{state.failed:,} failed" if state.failed else "",
        human(state.stored_bytes) if state.stored_bytes else "",
        _change(state.ratio) if state.ratio else "",
        f"{state.dropped:,} dropped" if state.dropped else "",
    ]
    return [part for part in told if part]


def line(state: PackProgress, pace: RateMeter, width: int) -> str:
    """One line that fits; what is least important gives way. The bar keeps its place and length for the whole run."""
    cells = _bar_cells(state, width)
    bar = cells + 4 if cells else 0
    room = width - len("  ".join([*_counted(state), "at  for 12:34:56"])) - bar
    if state.waiting_for is not None and room < _SHORTEST_NAME:
        cells, room = 0, room + bar
    told = parts(state, pace, max(room, _SHORTEST_NAME))
    if cells:
        full = int(cells * (state.fraction or 0.0))
        told.insert(1, f"[{'#' * full}{'.' * (cells - full)}]")
    while len(told) > 1 and len("  ".join(told)) > width:
        told.pop()
    return "  ".join(told)[:width]


def _bar_cells(state: PackProgress, width: int) -> int:
    """What the bar has beside everything that is usually told, whether or not it is told yet; 0 where that is crowded.

    It depends on the terminal and the number of inputs alone: a bar that changes its length shows no progress.
    """
    if state.fraction is None:
        return 0
    beside = len("  ".join([*_counted(state), "[]", ""]))
    if width - beside < _NARROWEST_BAR + len(_SOON):
        return 0
    return min(max(width - beside - len(_USUAL), _NARROWEST_BAR), _WIDEST_BAR)


def _counted(state: PackProgress) -> list[str]:
    """How far it is, always as wide as at the end."""
    if state.fraction is None or state.of_inputs is None:
        return ["packing", f"{state.inputs:,}"]
    of = f"{state.of_inputs:,}"
    return [f"packing {f'{int(100 * state.fraction)}%':>4}", f"{state.inputs:>{len(of)},}/{of}"]


def _starting(state: PackProgress) -> str:
    """Processes import torch before they do anything."""
    if not state.workers or state.inputs > state.resumed or state.waiting_for is not None:
        return ""
    return f"starting {state.workers} worker{'s' * (state.workers > 1)}"


def _looking(state: PackProgress) -> str:
    """Codecs are chosen before the first shard is written."""
    if state.looking_at is None:
        return ""
    inputs, of_inputs = state.looking_at
    return f"looking at {inputs:,} of {of_inputs:,} inputs to choose codecs"


def _waiting(state: PackProgress, longest_name: int) -> str:
    """The input that others wait for, when nothing has finished for a while."""
    if state.waiting_for is None:
        return ""
    name, seconds = state.waiting_for
    return f"at {shortened(printable(name), longest_name)} for {clock_text(seconds)}"


def _change(ratio: float) -> str:
    """How the store compares with the values."""
    times = factor(ratio)
    return "same size" if times is None else f"{times} {'smaller' if ratio > 1 else 'larger'}"
