"""What a session sees of real training loops: phases, modules, loaders, validation."""

import gc
import importlib
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch._dynamo  # it replaces names in torch itself when it is first needed
from torch import nn
from torch.utils.data import DataLoader

import cordwood as cw
from cordwood.doctor.probes.deep import syncs
from cordwood.doctor.probes.phases.step_tracker import StepTracker
from cordwood.doctor.rules.judging import judge
from cordwood.doctor.run.session import Session
from tests.doctor.support import smallnet
from tests.doctor.support.smallnet import Net, data, seen_steps, train

pytestmark = pytest.mark.usefixtures("one_thread")


def test_phases_and_modules_and_loaders_are_seen(session: Session) -> None:
    train(2)
    steps = seen_steps(session)
    evidence = session.evidence
    assert steps.count == 48
    assert all(steps.phase_ms(phase) > 0 for phase in ("wait", "forward", "backward", "optimizer", "other"))
    assert steps.phase_ms("transfer") == 0
    assert [type(seen.module) for seen in evidence.modules] == [Net]
    (loader,) = evidence.loaders
    assert (loader.is_training, loader.batches, loader.epochs) == (True, 48, 2)
    assert loader.place is not None
    assert loader.place.file == smallnet.__file__
    assert loader.place.source == "iterator = iter(loader)"
    assert loader.made_at is not None
    assert loader.made_at.source.startswith("loader = DataLoader(")
    assert evidence.modules[0].arguments is not None


def test_workers_give_the_same_and_are_seen(session: Session) -> None:
    watched = train(1, workers=2)
    assert seen_steps(session).count == 24
    assert session.evidence.fetches is not None
    assert watched == train(1, workers=2)


def test_validation_is_seen_with_its_line(session: Session) -> None:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader, validation = DataLoader(data(), batch_size=8), DataLoader(data(32), batch_size=8)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        for x, _ in validation:
            model(x).argmax(1)
    assert seen_steps(session).count == 24
    (seen,) = session.evidence.validation
    assert (seen.batches, seen.with_gradients, seen.in_train_mode) == (8, 8, 8)
    assert seen.place is not None
    assert seen.place.source == "model(x).argmax(1)"
    found = {outcome.rule.id: outcome for outcome in judge(session.evidence)}
    assert found["eval-without-no-grad"].status == "found"
    (finding,) = found["eval-in-train-mode"].findings
    assert finding.place == seen.place
    assert "2 layers behave differently there, `body.1` (BatchNorm1d), `body.3` (Dropout)" in finding.message


def test_passes_of_one_batch_are_not_batches(session: Session) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in DataLoader(data(), batch_size=8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            for x, _ in DataLoader(data(32), batch_size=8):
                torch.stack([model(x) for _ in range(5)]).var(0)
    seen_steps(session)
    (seen,) = session.evidence.validation
    assert (seen.batches, seen.calls, seen.with_gradients, seen.in_train_mode) == (8, 40, 0, 8)


def test_a_warning_names_the_users_line(session: Session) -> None:
    """Probes stand between the user's line and torch, and torch blames who called it."""
    told: list[tuple[str, int]] = []

    def shown(message: Any, category: Any, filename: str, lineno: int) -> None:
        told.append((filename, lineno))

    noting = session._noting_warnings(shown)
    noting("a word", UserWarning, syncs.__file__, 1)
    noting("a word", UserWarning, "/somewhere/else.py", 2)
    assert told[0][0] == __file__
    assert told[1] == ("/somewhere/else.py", 2)


def test_validation_done_right_passes(session: Session) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model.train()
        for x, y in DataLoader(data(), batch_size=8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for x, _ in DataLoader(data(32), batch_size=8):
                model(x)
    seen_steps(session)
    (seen,) = session.evidence.validation
    assert (seen.batches, seen.with_gradients, seen.in_train_mode) == (8, 0, 0)
    statuses = {outcome.rule.id: outcome.status for outcome in judge(session.evidence)}
    assert statuses["eval-without-no-grad"] == statuses["eval-in-train-mode"] == "passed"


def test_the_mode_of_layers_is_that_of_validation_not_that_of_the_end(session: Session) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader, validation = DataLoader(data(), batch_size=8), DataLoader(data(32), batch_size=8)
    for x, y in loader:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        for x, _ in validation:
            model(x)
    model.eval()
    seen_steps(session)
    (seen,) = session.evidence.validation
    assert seen.layers == ["body.1", "body.3"]


def test_validation_on_tensors_is_told_apart(session: Session) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = data().tensors
    for _ in range(4):
        model.train()
        for start in range(0, 96, 8):
            nn.functional.cross_entropy(model(x[start : start + 8]), y[start : start + 8]).backward()
            optimizer.step()
        model.eval()
        model(x)
        model(x)
    steps = seen_steps(session)
    assert steps.count == 48
    (seen,) = session.evidence.validation
    assert (seen.batches, seen.with_gradients, seen.in_train_mode) == (6, 6, 0)


def test_skipped_steps_of_a_gradient_scaler_are_steps(session: Session) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for number, (x, y) in enumerate(DataLoader(data(), batch_size=8)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss * (float("inf") if number % 3 == 0 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
    assert seen_steps(session).count == 12
    assert "the gradient scaler skipped 4 optimizer steps" in session.evidence.notes


def test_parameters_are_looked_at_while_a_gradient_scaler_skips_every_step(session: Session) -> None:
    model = Net()
    model.spare = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for x, y in DataLoader(data(), batch_size=6):
        optimizer.zero_grad()
        scaler.scale(nn.functional.cross_entropy(model(x), y) * float("inf")).backward()
        scaler.step(optimizer)
        scaler.update()
    assert seen_steps(session).count == 16
    assert session.evidence.parameters is not None
    assert session.evidence.parameters.never_called == ["spare.weight", "spare.bias"]


def test_a_closure_is_forward_and_backward(session: Session) -> None:
    model = Net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    for x, y in DataLoader(data(), batch_size=8):

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
    steps = seen_steps(session)
    assert steps.count == 12
    assert steps.phase_ms("forward") > 0
    assert steps.phase_ms("backward") > 0


def test_training_in_a_thread_of_its_own_is_seen(session: Session) -> None:
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert seen_steps(session).count > 40


def test_a_users_own_loader_is_timed_when_it_is_given() -> None:
    class Batches:
        def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            for start in range(0, 96, 4):
                x, y = data()[start : start + 4]
                yield x, y

    batches, model = Batches(), Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = Session(loader=batches, model=model, seconds=0.0)
    session.attach()
    for x, y in batches:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    steps = seen_steps(session)
    assert steps.count == 24
    assert steps.phase_ms("wait") > 0
    assert [seen.loader for seen in session.evidence.loaders] == [batches]


def test_a_users_own_iterator_is_timed_by_its_class() -> None:
    class Batches:
        def __init__(self) -> None:
            self.number = 0

        def __iter__(self) -> "Batches":
            return self

        def __next__(self) -> tuple[torch.Tensor, torch.Tensor]:
            if self.number == 24:
                raise StopIteration
            self.number += 1
            x, y = data()[self.number : self.number + 4]
            return x, y

    batches, model = Batches(), Net()
    before = dict(vars(Batches))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = Session(loader=batches, seconds=0.0)
    session.attach()
    for x, y in batches:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    steps = seen_steps(session)
    assert (steps.count, session.evidence.loaders[0].batches) == (24, 24)
    assert steps.phase_ms("wait") > 0
    assert dict(vars(Batches)) == before


@pytest.mark.parametrize("loader", [[1, 2], (number for number in range(3))], ids=["list", "generator"])
def test_what_cannot_be_timed_is_said_and_harms_nothing(loader: Any) -> None:
    with cw.diagnose(loader=loader, seconds=0.0) as d:
        train(1)
    assert any("cannot be told from other work" in note for note in d.report.document["notes"])


def test_cordwoods_own_loader_is_seen(session: Session, tmp_path: Any) -> None:
    with cw.Writer(tmp_path / "x.cordwood") as writer:
        for x, y in zip(*data().tensors, strict=True):
            writer.append({"x": x, "y": y})
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in cw.Loader(cw.open(tmp_path / "x.cordwood"), batch_size=4):
        nn.functional.cross_entropy(model(batch["x"]), batch["y"]).backward()
        optimizer.step()
    steps = seen_steps(session)
    assert steps.count == 24
    assert session.evidence.loaders[0].is_training


def test_compiled_models_are_left_alone_and_said(session: Session) -> None:
    model: Any = torch.compile(Net(), backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in DataLoader(data(), batch_size=8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    steps = seen_steps(session)
    assert session.evidence.compiled == ["Net"]
    assert steps.phase_ms("forward") > 0
    assert "compile" in session.evidence.missing["tape"]
    assert session.evidence.tape is None


def test_an_iterator_that_is_kept_over_epochs_has_a_first_batch_in_each(session: Session) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data(), batch_size=8, num_workers=1, persistent_workers=True)
    for _ in range(3):
        for x, y in loader:
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    steps = seen_steps(session)
    assert steps.count == 36
    assert len(steps.first_waits) == 3
    assert steps.left_out["with the first batch of an epoch"] == 2  # the third one belongs to the warm-up


class Breaking(torch.utils.data.Dataset[torch.Tensor]):
    """Its samples can be had once each, and one of them not at all."""

    def __init__(self, bad: int) -> None:
        self.bad = bad
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 80

    def __getitem__(self, index: int) -> torch.Tensor:
        self.asked.append(index)
        if index == self.bad:
            raise OSError("a broken file")
        return torch.full((8,), float(index))


@pytest.mark.parametrize("bad", [40, 44, 79])
def test_what_a_dataset_raises_where_the_doctor_lets_go_reaches_the_script(bad: int) -> None:
    dataset, net = Breaking(bad), nn.Linear(8, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    raised = ""
    with cw.diagnose(steps=10, seconds=0) as d:
        try:
            for x in DataLoader(dataset, batch_size=4):
                net(x).sum().backward()
                optimizer.step()
        except OSError as error:
            raised = str(error)
    assert raised == "a broken file"
    assert dataset.asked == list(range(bad + 1))
    assert "the doctor failed" not in d.report.verdict


def test_steps_that_end_with_an_epoch_are_no_failure() -> None:
    with cw.diagnose(steps=24, seconds=0) as d:
        train(2)
    assert d.report.document["steps"]["count"] == 24
    assert "the doctor failed" not in d.report.verdict


@pytest.mark.slow
def test_what_a_script_is_done_with_is_not_kept_alive(session: Session) -> None:
    alive = weakref.WeakSet[Any]()
    for _ in range(40):
        model = Net()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        loader = DataLoader(data(16), batch_size=8)
        alive.update([model, optimizer, loader])
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    del model, optimizer, loader
    gc.collect()
    kinds = Counter(type(each).__name__ for each in alive)
    assert kinds["Adam"] <= 13  # those of the steps in which parameters were looked at
    assert kinds["DataLoader"] <= 8
    assert kinds["Net"] <= 16
    assert seen_steps(session).count == 80
    assert sum(seen.batches for seen in session.evidence.loaders) == 80


def test_an_optimizer_that_raises_is_not_at_work_for_ever(session: Session) -> None:
    net = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)

    def closure(fails: bool) -> torch.Tensor:
        if fails:
            raise ZeroDivisionError
        loss: torch.Tensor = net(torch.ones(4, 8)).sum()
        loss.backward()
        return loss

    phases = []
    for number in range(40):
        with suppress(ZeroDivisionError):
            optimizer.step(lambda number=number: closure(number == 20))
        phases.append(session._recorder.clock.phase())
    assert [number for number, phase in enumerate(phases) if phase != "other"] == [20]
    for number, _ in enumerate(DataLoader(data(), batch_size=8)):
        with suppress(ZeroDivisionError):
            optimizer.step(lambda number=number: closure(number == 5))
        phases.append(session._recorder.clock.phase())
    assert [number for number, phase in enumerate(phases) if phase != "other"] == [20, 45]


def test_epochs_of_one_batch_are_measured(session: Session) -> None:
    net = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    loader = DataLoader(data(), batch_size=96)
    for _ in range(60):
        for x, _ in loader:
            net(x).sum().backward()
            optimizer.step()
    steps = seen_steps(session)
    assert steps.count >= 58
    assert len(steps.times) > 30
    assert "with the first batch of an epoch" not in steps.left_out


@pytest.mark.parametrize("failing", ["updates", "forward", "backward", "batch_wanted", "batch_came", "repeat"])
def test_a_tracker_that_fails_lets_the_script_go_on(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks are taken out while torch goes through them, whichever of them finds the failure."""
    bare = train(2)
    original = getattr(StepTracker, failing)
    calls = Counter[str]()

    def fails_later(tracker: StepTracker, *arguments: Any) -> Any:
        calls[failing] += 1
        if failing == "repeat" or calls[failing] > 10:
            raise ZeroDivisionError
        return original(tracker, *arguments)

    monkeypatch.setattr(StepTracker, failing, fails_later)
    with (
        patch("cordwood.doctor.probes.deep.all_deep.make_deep_probes", list),
        cw.diagnose(seconds=0) as d,
    ):
        assert train(2) == bare
    session = d._session
    session.detach()
    assert calls[failing] > 0
    missing = session.evidence.missing
    assert "ZeroDivisionError" in missing.get("steps", "") + missing.get("modules", "")
    hooks = importlib.import_module("torch.optim.optimizer")
    assert not hooks._global_optimizer_pre_hooks
    assert not hooks._global_optimizer_post_hooks
