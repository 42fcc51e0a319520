"""What the doctor's timers cost: training with and without them in one process, in turns."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
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
SECONDS_A_TURN = 0.2
FEWEST_STEPS = 40  # in a turn
FEW = 5  # training steps, after which the doctor detaches itself


@dataclass
class Training:
    """A small network with a loader, trained for as many steps as an epoch has."""

    width: int
    steps: int
    loader: Any = field(init=False)
    model: nn.Module = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)

    def __post_init__(self) -> None:
        data = TensorDataset(torch.randn(BATCH * self.steps, 64), torch.randint(10, (BATCH * self.steps,)))
        self.loader = DataLoader(data, batch_size=BATCH)
        layers = [nn.Linear(64, self.width), nn.ReLU(), nn.Linear(self.width, self.width), nn.ReLU()]
        self.model = nn.Sequential(*layers, nn.Linear(self.width, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def epoch(self, steps: int | None = None) -> float:
        """Seconds of the processor for an epoch, or for its first steps."""
        start = time.process_time()
        for number, (inputs, labels) in enumerate(self.loader, 1):
            loss = nn.functional.cross_entropy(self.model(inputs), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if number == steps:
                break
        return time.process_time() - start

    def timed(self) -> float:
        """With phase timers, and no step or fetch watched more closely."""
        with (
            patch("cordwood.doctor.probes.attached.make_deep_probes", list),
            patch("cordwood.doctor.probes.fetchwatch._MOST_LOOKS", 0),
        ):
            return self._under(Session())

    def watched(self) -> float:
        """With all probes, as in the first steps of a script."""
        return self._under(Session())

    def detached(self) -> float:
        """After the doctor has seen its few steps and gone."""
        session = Session(steps=FEW)
        session.attach()
        try:
            self.epoch(FEW + 2)
            if session.steps_seen < FEW:
                raise MismatchError(f"the doctor saw {session.steps_seen} steps, not {FEW}")
            return self.epoch()
        finally:
            session.detach()

    def _under(self, session: Session) -> float:
        session.attach()
        try:
            seconds = self.epoch()
        finally:
            session.detach()
        if session.steps_seen < self.steps - 2:
            raise MismatchError(f"the doctor saw {session.steps_seen} steps of {self.steps}")
        return seconds


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
            training = sized(aim)
            turns = in_turns(training, 5 if settings.quick else ROUNDS)
            for name, seconds in turns.items():
                against = ratio(seconds, turns["bare"]) if name != "bare" else None
                table.add(f"{aim * 1e3:g} ms", name, Spread.of([each / training.steps for each in seconds]), against)
            outcome.measured[key] = ratio(turns["phase timers"], turns["bare"])
            if aim == 0.001:  # where a cost that is left would show most
                outcome.measured["doctor-cost-detached"] = beyond_noise(turns)
    table.notes += [
        "Time is that of the processor, for the whole process with all its threads.",
        "All probes: the first steps of a run, some of which are watched closely; later ones have phase timers only.",
        f"Detached: the doctor saw {FEW} steps and left; the goal is the distance from the bare script in units of the "
        "spread (half the distance of the quartiles) between two bare turns of the same round.",
    ]
    return outcome


def in_turns(training: Training, rounds: int) -> dict[str, list[float]]:
    """Seconds of an epoch for each way and round; who begins changes from round to round."""
    ways: dict[str, Callable[[], float]] = {
        "bare": training.epoch,
        "bare, once more": training.epoch,
        "phase timers": training.timed,
        "detached": training.detached,
        "all probes": training.watched,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways)
    with no_garbage_collection():
        for name in order:
            ways[name]()
        for _ in range(rounds):
            for name in order:
                seconds[name].append(ways[name]())
            order.append(order.pop(0))
    return seconds


def beyond_noise(turns: dict[str, list[float]]) -> Spread:
    """How far a detached run is from a bare one, in units of what two bare ones differ by."""
    noise = ratio(turns["bare, once more"], turns["bare"])
    half = max((noise.high - noise.low) / 2, 1e-9)
    left = ratio(turns["detached"], turns["bare"])
    return Spread.exact(abs(left.median - 1) / half)


def sized(seconds: float) -> Training:
    """A network whose steps take about this long, with an epoch of some tenths of a second."""

    def step_of(width: int) -> float:
        training = Training(width, 10)
        return statistics.median(training.epoch() for _ in range(5)) / training.steps

    width = next((each for each in WIDTHS if step_of(each) >= seconds), WIDTHS[-1])
    return Training(width, max(FEWEST_STEPS, round(SECONDS_A_TURN / seconds)))
