"""What the doctor's timers cost: training with and without them in one process, in turns."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.harness import MismatchError, Spread, no_garbage_collection, ratio
from benchmarks.outcome import Outcome, Settings, Table
from benchmarks.rivals import threads
from cordwood.doctor.session import Session

TITLE = "What the doctor costs"
KEYS = ("doctor-cost-10ms", "doctor-cost-1ms", "doctor-cost-detached")
BATCH = 16
WIDTHS = range(64, 4096, 64)
ROUNDS = 30
SECONDS_A_TURN = 0.15
FEWEST_STEPS = 30  # in a turn, behind its start
START = 64  # steps, in which all fetches are timed and, at first, the calls of all modules
FEW = 5  # training steps, after which the doctor detaches itself


class Turn(NamedTuple):
    """Seconds of the processor a step: in the start of a run, and behind it."""

    start: float
    later: float


@dataclass
class Training:
    """A small network with a loader, trained for a start and as many steps behind it."""

    width: int
    steps: int
    start: int = START
    loader: Any = field(init=False)
    model: nn.Module = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)

    def __post_init__(self) -> None:
        samples = BATCH * (self.start + self.steps)
        data = TensorDataset(torch.randn(samples, 64), torch.randint(10, (samples,)))
        self.loader = DataLoader(data, batch_size=BATCH)
        layers = [nn.Linear(64, self.width), nn.ReLU(), nn.Linear(self.width, self.width), nn.ReLU()]
        self.model = nn.Sequential(*layers, nn.Linear(self.width, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def epoch(self) -> Turn:
        """All of it."""
        begin = middle = time.process_time()
        for number, (inputs, labels) in enumerate(self.loader):
            if number == self.start:
                middle = time.process_time()
            loss = nn.functional.cross_entropy(self.model(inputs), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return Turn((middle - begin) / self.start, (time.process_time() - middle) / self.steps)

    def timed(self) -> Turn:
        """With phase timers, and no step or fetch watched more closely."""
        with (
            patch("cordwood.doctor.probes.attached.make_deep_probes", list),
            patch("cordwood.doctor.probes.fetchwatch._MOST_LOOKS", 0),
        ):
            return self._under(Session(), self.start + self.steps - 2)

    def watched(self) -> Turn:
        """With all probes."""
        return self._under(Session(), self.start + self.steps - 2)

    def detached(self) -> Turn:
        """The doctor sees its few steps and is gone."""
        return self._under(Session(steps=FEW), FEW)

    def _under(self, session: Session, at_least: int) -> Turn:
        session.attach()
        try:
            turn = self.epoch()
        finally:
            session.detach()
        if session.steps_seen < at_least:
            raise MismatchError(f"the doctor saw {session.steps_seen} steps, not {at_least}")
        return turn


def measure(settings: Settings) -> Outcome:
    """Steps of 10 ms and of 1 ms; torch has one thread, and its time on the processor is what counts: training never
    waits here, and what else the machine does is left out."""
    table = Table(
        f"{TITLE}, batches of {BATCH}, torch with one thread",
        [("a step takes about", "text"), ("how", "text"), ("a step, ms", "ms"), ("of the bare script's", "ratio")],
    )
    outcome = Outcome([table])
    with threads(1):
        for aim, key in ((0.010, "doctor-cost-10ms"), (0.001, "doctor-cost-1ms")):
            turns = in_turns(sized(aim), 5 if settings.quick else ROUNDS)
            later = {name: [turn.later for turn in taken] for name, taken in turns.items()}
            start = {name: [turn.start for turn in taken] for name, taken in turns.items()}
            for name in ("bare", "bare, once more", "phase timers", "detached"):
                against = ratio(later[name], later["bare"]) if name != "bare" else None
                table.add(f"{aim * 1e3:g} ms", name, Spread.of(later[name]), against)
            for name in ("phase timers", "all probes"):
                against = ratio(start[name], start["bare"])
                table.add(f"{aim * 1e3:g} ms", f"{name}, the first {START} steps", Spread.of(start[name]), against)
            outcome.measured[key] = ratio(later["phase timers"], later["bare"])
            if aim == 0.001:  # where a cost that is left would show most
                outcome.measured["doctor-cost-detached"] = beyond_noise(later)
    table.notes += [
        "Time is that of the processor, for the whole process with all its threads.",
        f"Steps behind the first {START} of a run, unless a row says otherwise: these are watched more closely, and "
        "are shown for themselves, with phase timers alone and with all probes.",
        f"Detached: the doctor saw {FEW} steps and left; the goal is the distance from the bare script in units of the "
        "spread (half the distance of the quartiles) between two bare turns of the same round.",
    ]
    return outcome


def in_turns(training: Training, rounds: int) -> dict[str, list[Turn]]:
    """An epoch for each way and round; who begins changes from round to round."""
    ways: dict[str, Callable[[], Turn]] = {
        "bare": training.epoch,
        "bare, once more": training.epoch,
        "phase timers": training.timed,
        "detached": training.detached,
        "all probes": training.watched,
    }
    turns: dict[str, list[Turn]] = {name: [] for name in ways}
    order = list(ways)
    with no_garbage_collection():
        for name in order:
            ways[name]()
        for _ in range(rounds):
            for name in order:
                turns[name].append(ways[name]())
            order.append(order.pop(0))
    return turns


def beyond_noise(seconds: dict[str, list[float]]) -> Spread:
    """How far a detached run is from a bare one, in units of what two bare ones differ by."""
    noise = ratio(seconds["bare, once more"], seconds["bare"])
    half = max((noise.high - noise.low) / 2, 1e-9)
    left = ratio(seconds["detached"], seconds["bare"])
    return Spread.exact(abs(left.median - 1) / half)


def sized(seconds: float) -> Training:
    """A network whose steps take about this long, with an epoch of some tenths of a second."""

    def step_of(width: int) -> float:
        training = Training(width, 10, start=4)
        return statistics.median(training.epoch().later for _ in range(5))

    width = next((each for each in WIDTHS if step_of(each) >= seconds), WIDTHS[-1])
    return Training(width, max(FEWEST_STEPS, round(SECONDS_A_TURN / seconds)))
