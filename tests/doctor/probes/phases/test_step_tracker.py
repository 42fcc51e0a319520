"""Where steps begin and end, told by events alone; time is a counter here."""

import pytest

from cordwood.doctor.evidence.evidence import PHASES, LoaderSeen
from cordwood.doctor.probes.phases import clock as clocks
from cordwood.doctor.probes.phases.clock import BACKWARD, FORWARD, OPTIMIZER, OTHER, WAIT, PhaseClock
from cordwood.doctor.probes.phases.rhythm import Rhythm
from cordwood.doctor.probes.phases.step_tracker import StepTracker


class Time:
    """Goes on only when somebody says so."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Run:
    """A training loop in slow motion: each event takes the milliseconds that it says."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.clock = PhaseClock()
        self.ended: list[int] = []
        self.disturbed: set[int] = set()
        self.tracker = StepTracker(self.clock, Rhythm(self.clock), self._ended)
        self.validated: list[float] = []
        self.tracker.validation_ended = lambda milliseconds, in_eval_mode: self.validated.append(milliseconds)

    def _ended(self, number: int) -> bool:
        self.ended.append(number)
        return number + 1 in self.disturbed

    def spend(self, phase: int, milliseconds: int) -> None:
        before = self.clock.switch(phase)
        self.time.now += milliseconds * 1_000_000
        self.clock.switch(before)

    def batch(self, loader: LoaderSeen, milliseconds: int = 1, *, first: bool = False) -> None:
        self.tracker.batch_wanted(loader)
        self.spend(WAIT, milliseconds)
        self.tracker.batch_came(loader, first, milliseconds * 1_000_000)

    def forward(self, milliseconds: int = 2, *, may_learn: bool = True, validates: bool = False) -> None:
        self.tracker.forward(may_learn, validates)
        self.spend(FORWARD, milliseconds)

    def backward(self, milliseconds: int = 4) -> None:
        self.tracker.backward()
        self.spend(BACKWARD, milliseconds)

    def update(self, optimizer: object, milliseconds: int = 8) -> None:
        self.tracker.updates(id(optimizer))
        self.spend(OPTIMIZER, milliseconds)

    def step(self, loader: LoaderSeen, optimizer: object) -> None:
        self.batch(loader)
        self.forward()
        self.backward()
        self.update(optimizer)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    time = Time()
    monkeypatch.setattr(clocks, "perf_counter_ns", time)
    return Run(time)


def loader() -> LoaderSeen:
    return LoaderSeen(object(), None)


def test_a_step_is_a_batch_with_all_that_follows_it(run: Run) -> None:
    train, optimizer = loader(), object()
    for number in range(10):
        run.step(train, optimizer)
        run.time.now += 16_000_000  # logging
        assert run.ended == list(range(number))
    run.tracker.batch_wanted(train)  # the call that raises StopIteration
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.count == 10
    assert steps.left_out == {"warm-up": 3}
    assert steps.times.tolist() == [[1, 0, 2, 4, 8, 16]] * 7
    assert steps.numbers.tolist() == list(range(3, 10))
    assert steps.mean_ms == 31
    assert steps.phase_share("optimizer") == 8 / 31


def test_gradient_accumulation_is_one_step(run: Run) -> None:
    train, optimizer = loader(), object()
    for _ in range(6):
        for _ in range(4):
            run.batch(train)
            run.forward()
            run.backward()
        run.update(optimizer)
    run.tracker.batch_wanted(train)
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.times.tolist() == [[4, 0, 8, 16, 8, 0]] * 3
    assert run.tracker.batches == 24
    assert train.batches == 24


def test_two_optimizers_on_one_batch_are_one_step(run: Run) -> None:
    train, one, other = loader(), object(), object()
    for _ in range(5):
        run.batch(train)
        for optimizer in (one, other):
            run.forward()
            run.backward()
            run.update(optimizer)
    run.tracker.batch_wanted(train)
    assert run.ended == [0, 1, 2, 3, 4]


def test_the_last_step_counts_though_nobody_sees_its_end(run: Run) -> None:
    train, optimizer = loader(), object()
    for _ in range(5):
        run.step(train, optimizer)
    run.batch(train)
    run.forward()  # something is raised here: no step
    steps = run.tracker.finish()
    assert steps is not None
    assert (steps.count, len(steps.times), run.tracker.batches) == (5, 2, 5)
    run.backward()
    run.update(optimizer)  # something is raised behind it: a step
    for _ in range(2):  # however often one asks
        steps = run.tracker.finish()
        assert steps is not None
        assert (steps.count, len(steps.times), run.tracker.batches) == (6, 2, 6)


def test_no_step_is_counted_behind_the_last_one_that_was_asked_for(run: Run) -> None:
    def ended(number: int) -> bool:
        if number == 2:
            run.clock.thread = None  # as detaching does
        return False

    run.tracker.ended = ended
    for _ in range(4):
        run.forward()
        run.backward()
        run.update("optimizer")
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.count == 3


def test_without_a_loader_optimizers_tell_the_steps(run: Run) -> None:
    one, other = object(), object()
    for _ in range(8):
        for optimizer in (one, other):
            run.forward()
            run.backward()
            run.update(optimizer)
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.count == 8
    assert steps.left_out == {"warm-up": 3, "end not seen": 1}
    assert steps.times.tolist() == [[0, 0, 4, 8, 16, 0]] * 4


def test_many_steps_on_one_batch_are_steps(run: Run) -> None:
    train, optimizer = loader(), object()
    run.batch(train, first=True)
    for _ in range(100):
        run.forward()
        run.backward()
        run.update(optimizer)
    assert run.tracker.count > 30


def test_a_closure_takes_its_time_from_the_optimizer(run: Run) -> None:
    train, optimizer = loader(), object()
    for _ in range(5):
        run.batch(train)
        run.tracker.updates(id(optimizer))
        before = run.clock.switch(OPTIMIZER)
        run.forward()
        run.backward()
        run.time.now += 3_000_000
        run.clock.switch(before)
    run.tracker.batch_wanted(train)
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.times.tolist() == [[1, 0, 2, 4, 3, 0]] * 2


def test_validation_is_told_apart(run: Run) -> None:
    train, validation, optimizer = loader(), loader(), object()
    for _ in range(3):
        for _ in range(4):
            run.step(train, optimizer)
        run.tracker.batch_wanted(train)
        for _ in range(2):
            run.batch(validation, 5, first=True)
            run.forward(7, may_learn=False)
        run.tracker.batch_wanted(validation)
        run.time.now += 1_000_000_000  # between epochs
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.count == 12
    assert run.validated == [12.0] * 6
    assert set(map(tuple, steps.times.tolist())) == {(1, 0, 2, 4, 8, 0)}
    assert train.is_training
    assert not validation.is_training
    assert steps.first_waits.tolist() == []  # validation's are none of training's


def test_validation_with_gradients_in_train_mode_is_validation_all_the_same(run: Run) -> None:
    train, validation, optimizer = loader(), loader(), object()
    run.step(train, optimizer)
    run.tracker.batch_wanted(train)
    for _ in range(3):
        run.batch(validation)
        run.forward(may_learn=True)
    run.step(train, optimizer)
    run.tracker.batch_wanted(train)
    assert run.validated == [3.0] * 3
    assert run.ended == [0, 1]


def validate(run: Run) -> None:
    for _ in range(3):
        run.forward(100, may_learn=False, validates=True)
        run.time.now += 50_000_000


@pytest.mark.parametrize("fed", [True, False], ids=["loader", "no loader"])
def test_validation_without_a_loader_takes_nothing_of_a_step(run: Run, fed: bool) -> None:
    train, optimizer = loader(), object()
    for number in range(21):
        if fed:
            run.batch(train)
        run.forward()
        run.backward()
        run.update(optimizer)
        if number % 5 == 4:
            validate(run)
    run.tracker.batch_wanted(train)
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.count == (21 if fed else 20)
    assert set(map(tuple, steps.times.tolist())) == {(int(fed), 0, 2, 4, 8, 0)}
    assert run.validated == [450.0] * 4


def test_gradients_in_evaluation_are_no_validation_without_them(run: Run) -> None:
    train, optimizer = loader(), object()
    for number in range(12):
        run.step(train, optimizer)
        if number == 8:
            run.forward(50, may_learn=False, validates=True)
            run.backward(50)  # an attack: nothing steps after it
    run.tracker.batch_wanted(train)
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.times.tolist() == [[1, 0, 2, 4, 8, 0]] * 9
    assert run.validated == []


def test_a_model_that_is_trained_in_eval_mode_is_trained(run: Run) -> None:
    train, optimizer = loader(), object()
    for number in range(12):
        run.batch(train)
        run.forward(may_learn=number < 6, validates=number >= 6)
        run.backward()
        run.update(optimizer)
    run.tracker.batch_wanted(train)
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.times.tolist() == [[1, 0, 2, 4, 8, 0]] * 9
    assert run.validated == []


def test_a_model_in_eval_mode_in_every_step_is_part_of_training(run: Run) -> None:
    train, optimizer = loader(), object()
    for _ in range(20):
        run.batch(train)
        run.forward(5, may_learn=False, validates=True)  # its own labels
        run.forward()
        run.backward()
        run.update(optimizer)
    run.tracker.batch_wanted(train)
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.times[10:].tolist() == [[1, 0, 7, 4, 8, 0]] * len(steps.times[10:])
    assert len(run.validated) == 1  # nobody could know better in the first step


def test_a_loader_that_was_read_before_does_not_hide_the_steps(run: Run) -> None:
    validation, optimizer = loader(), object()
    for _ in range(2):
        for _ in range(30):
            run.forward()
            run.backward()
            run.update(optimizer)
        run.batch(validation)
        run.forward(may_learn=False)
        run.tracker.batch_wanted(validation)
        run.tracker.exhausted()
        run.time.now += 1_000_000_000
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.count == 58
    assert steps.left_out == {"warm-up": 3, "beginning not seen": 1}
    assert set(map(tuple, steps.times.tolist())) == {(0, 0, 2, 4, 8, 0)}


def test_a_loader_that_fetches_ahead_trains_on_its_last_batch_after_its_end(run: Run) -> None:
    train, optimizer = loader(), object()
    for _ in range(3):
        run.batch(train, first=True)
        for number in range(6):
            if number < 5:
                run.batch(train)
            else:
                run.tracker.batch_wanted(train)
                run.tracker.exhausted()
            run.forward()
            run.backward()
            run.update(optimizer)
    run.tracker.batch_wanted(train)
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.count == 18
    assert run.validated == []
    assert steps.left_out["beginning not seen"] == 3


def test_a_pass_over_the_data_without_a_model_is_neither(run: Run) -> None:
    train, optimizer = loader(), object()
    for _ in range(5):
        run.batch(train, 100)
    for _ in range(5):
        run.step(train, optimizer)
    run.tracker.batch_wanted(train)
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.count == 5
    assert run.validated == []
    assert steps.times.tolist() == [[1, 0, 2, 4, 8, 0]] * 2


def test_both_of_two_loaders_feed_training(run: Run) -> None:
    labelled, unlabelled, optimizer = loader(), loader(), object()
    for _ in range(4):
        run.batch(labelled)
        run.batch(unlabelled)
        run.forward()
        run.backward()
        run.update(optimizer)
    assert labelled.is_training
    assert unlabelled.is_training
    assert run.ended == [0, 1, 2]


def test_first_batches_and_disturbed_steps_do_not_count(run: Run) -> None:
    train, optimizer = loader(), object()
    run.disturbed = {5}
    for number in range(10):
        run.batch(train, 90 if number == 7 else 1, first=number in (0, 7))
        run.forward()
        run.backward()
        run.update(optimizer)
    run.tracker.batch_wanted(train)
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.numbers.tolist() == [3, 4, 6, 8, 9]
    assert steps.left_out == {"with the first batch of an epoch": 1, "watched closely": 1, "warm-up": 3}
    assert steps.first_waits.tolist() == [1.0, 90.0]
    assert run.tracker.watched_closely() == (1, 15.0)


def test_a_long_run_keeps_few_rows_evenly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.doctor.probes.phases.step_tracker._MOST_ROWS", 64)
    train, optimizer = loader(), object()
    for _ in range(1000):
        run.step(train, optimizer)
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.count == 1000
    assert 16 <= len(steps.times) < 64
    gaps = set(steps.numbers[1:] - steps.numbers[:-1])
    assert len(gaps) == 1
    assert steps.times.tolist() == [[1, 0, 2, 4, 8, 0]] * len(steps.times)


def test_nothing_trained_is_nothing_seen(run: Run) -> None:
    run.batch(loader())
    run.forward(may_learn=False)
    assert run.tracker.finish() is None


def test_the_clock_knows_its_phase(run: Run) -> None:
    assert run.clock.phase() == PHASES[OTHER]
    assert run.clock.switch(FORWARD) == OTHER
    assert run.clock.phase() == PHASES[FORWARD]


class Event:
    """Stands in for a CUDA event: the stream is a counter, and done up to a point."""

    stream = 0.0
    done = 0.0

    def record(self) -> None:
        self.at = Event.stream

    def query(self) -> bool:
        return self.at <= Event.done

    def elapsed_time(self, other: "Event") -> float:
        return other.at - self.at


def test_device_times_come_later_and_replace_those_of_the_host(run: Run) -> None:
    run.clock.timeline = clocks.DeviceTimeline(Event)
    train, optimizer = loader(), object()
    for _ in range(6):
        run.batch(train)
        for phase, device_ms in ((FORWARD, 20.0), (BACKWARD, 40.0), (OPTIMIZER, 10.0)):
            if phase == BACKWARD:
                run.tracker.backward()
            if phase == OPTIMIZER:
                run.tracker.updates(id(optimizer))
            before = run.clock.switch(phase)
            Event.stream += device_ms  # the host is through at once
            run.clock.switch(before)
    run.tracker.batch_wanted(train)
    Event.done = Event.stream
    steps = run.tracker.finish()
    assert steps is not None
    assert steps.times.tolist() == [[1, 0, 20, 40, 10, 0]] * 3
