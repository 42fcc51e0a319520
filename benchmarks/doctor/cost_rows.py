"""What the doctor's timers cost: training with and without them in one process, in turns."""

import math
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.data.rivals import threads
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import MismatchError, Spread, no_garbage_collection, ratio
from cordwood.doctor.run.session import Session

TITLE = "What the doctor costs"
KEYS = ("doctor-cost-10ms", "doctor-cost-1ms", "doctor-cost-detached")
# Long steps have large batches: with small ones they would read weights from a cache that other machines share.
BATCHES = {0.010: 512, 0.001: 16}  # samples, by the seconds of a step
WIDTHS = range(64, 4096, 64)
ROUNDS = 100
RARE = 4  # rounds, one of which has the ways that need no such precision
STEPS = 20  # in a turn, at least
SECONDS_A_TURN = 0.1  # short turns, so that both ways meet the same mood of the machine
BEFORE = 32  # steps at least that go before a turn, until phases are timed as they are from then on
START = 64  # steps that are watched more closely than all others
STARTS = 5  # turns in which they are timed
FEW = 5  # training steps, after which the doctor detaches itself


class Training:
    """A small network with a loader, trained for some steps at a time."""

    def __init__(self, width: int, steps: int, batch: int) -> None:
        self.width = width
        self.steps = steps
        self.batch = batch
        data = TensorDataset(torch.randn(batch * steps, 64), torch.randint(10, (batch * steps,)))
        self.loader: Any = DataLoader(data, batch_size=batch)
        layers = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        self.model = nn.Sequential(*layers, nn.Linear(width, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def epoch(self) -> float:
        """Seconds of the processor a step."""
        start = time.process_time()
        for inputs, labels in self.loader:
            loss = nn.functional.cross_entropy(self.model(inputs), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return (time.process_time() - start) / self.steps


class Ways:
    """The same training bare and under the doctor. Some epochs go before each turn: the start of a run."""

    def __init__(self, training: Training) -> None:
        self.training = training

    def bare(self) -> float:
        """As it is."""
        for _ in range(math.ceil(BEFORE / self.training.steps)):
            self.training.epoch()
        return self.training.epoch()

    def timed(self) -> float:
        """With phase timers, and no step or fetch watched more closely."""
        with (
            patch("cordwood.doctor.probes.deep.all_deep.make_deep_probes", list),
            patch("cordwood.doctor.probes.fetch.watch._MOST_LOOKS", 0),
        ):
            return self._under(Session(), BEFORE + self.training.steps - 2)  # its edges may belong to no step

    def detached(self) -> float:
        """The doctor saw its few steps and is gone."""
        return self._under(Session(steps=FEW), FEW)

    def _under(self, session: Session, at_least: int) -> float:
        session.attach()
        try:
            seconds = self.bare()
        finally:
            session.detach()
        if session.steps_seen < at_least:
            raise MismatchError(f"the doctor saw {session.steps_seen} steps, not {at_least}")
        return seconds


def measure(settings: Settings) -> Outcome:
    """Steps of 10 ms and of 1 ms; torch has one thread, and its time on the processor is what counts: training never
    waits here, and what else the machine does is left out."""
    table = Table(
        f"{TITLE}, torch with one thread",
        [("a step takes about", "text"), ("how", "text"), ("a step, ms", "ms"), ("of the bare script's", "ratio")],
    )
    outcome = Outcome([table])
    with threads(1):
        for aim, key in ((0.010, "doctor-cost-10ms"), (0.001, "doctor-cost-1ms")):
            training = sized(aim)
            seconds = in_turns(Ways(training), 10 if settings.quick else ROUNDS)
            for name, taken in seconds.items():
                against = compared(taken, seconds["bare"]) if name != "bare" else None
                table.add(f"{aim * 1e3:g} ms", name, Spread.of(known(taken)), against)
            table.add(f"{aim * 1e3:g} ms", f"all probes, the first {START} steps of a run", *started(training))
            outcome.measured[key] = compared(seconds["phase timers"], seconds["bare"])
            if aim == 0.001:  # where a cost that is left would show most
                outcome.measured["doctor-cost-detached"] = beyond_noise(seconds)
    table.notes += [
        "Time is that of the processor, for the whole process with all its threads. Batches have "
        + " and ".join(f"{batch} samples at {aim * 1e3:g} ms" for aim, batch in BATCHES.items())
        + ".",
        f"Before each turn go {BEFORE} steps or more: the first ones of a run are watched more closely. What {START} "
        "of them take with all probes is the last row of each.",
        f"Detached: the doctor saw {FEW} steps and left; the goal is the distance from the bare script in units of the "
        "spread (half the distance of the quartiles) between two bare turns of the same round.",
    ]
    return outcome


def in_turns(ways: Ways, rounds: int) -> dict[str, list[float | None]]:
    """Seconds a step for each way and round, None where it had no turn; who begins changes from round to round."""
    calls: dict[str, Callable[[], float]] = {
        "bare": ways.bare,
        "phase timers": ways.timed,
        "bare, once more": ways.bare,
        "detached": ways.detached,
    }
    seconds: dict[str, list[float | None]] = {name: [] for name in calls}
    order = list(calls)
    with no_garbage_collection():
        for name in order:
            calls[name]()
        for number in range(rounds):
            often = number % RARE != 0
            for name in order:
                has_turn = not often or name in ("bare", "phase timers")
                seconds[name].append(calls[name]() if has_turn else None)
            order.append(order.pop(0))
    return seconds


def known(seconds: list[float | None]) -> list[float]:
    """Without the rounds in which it had no turn."""
    return [each for each in seconds if each is not None]


def compared(ours: list[float | None], bare: list[float | None]) -> Spread:
    """The ratio, over the rounds in which both had a turn."""
    pairs = [(one, other) for one, other in zip(ours, bare, strict=True) if one is not None and other is not None]
    return ratio([one for one, _ in pairs], [other for _, other in pairs])


def started(like: Training) -> tuple[Spread, Spread]:
    """The first steps of a run with all probes: seconds a step, and of the bare script's."""
    training = Training(like.width, START, like.batch)
    bare, watched = [], []
    for _ in range(STARTS):
        bare.append(training.epoch())
        session = Session()
        session.attach()
        try:
            watched.append(training.epoch())
        finally:
            session.detach()
    return Spread.of(watched), ratio(watched, bare)


def beyond_noise(seconds: dict[str, list[float | None]]) -> Spread:
    """How far a detached run is from a bare one, in units of what two bare ones differ by."""
    noise = compared(seconds["bare, once more"], seconds["bare"])
    half = max((noise.high - noise.low) / 2, 1e-9)
    left = compared(seconds["detached"], seconds["bare"])
    return Spread.exact(abs(left.median - 1) / half)


def sized(seconds: float) -> Training:
    """A network whose steps take about this long, with an epoch of some tenths of a second."""

    batch = BATCHES[seconds]

    def step_of(width: int) -> float:
        training = Training(width, 10, batch)
        return min(training.epoch() for _ in range(5))  # what else the machine does only adds to it

    width = next((each for each in WIDTHS if step_of(each) >= seconds), WIDTHS[-1])
    return Training(width, max(STEPS, round(SECONDS_A_TURN / seconds)), batch)
