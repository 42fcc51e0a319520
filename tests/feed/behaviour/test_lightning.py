"""A Loader in a Lightning trainer: epochs, checkpoints in the middle of one, validation."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood import Loader
from tests.feed.support.leftovers import Leftovers
from tests.feed.support.numbered import numbered, numbers_in
from tests.feed.support.plain_order import shuffled

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what Lightning imports
    pl = pytest.importorskip("pytorch_lightning", reason="pytorch_lightning is not installed: pip install '.[test]'")

# What Lightning has to say about this machine and this model is not the point.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

COUNT, BATCH = 50, 8
STEPS = 7  # batches of an epoch


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    return numbered(tmp_path_factory.mktemp("lightning") / "s", COUNT)


class Model(pl.LightningModule):  # type: ignore[misc, name-defined]
    """Notes the samples that it is given, by epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)
        self.trained: dict[int, list[int]] = {}
        self.validated: list[list[int]] = []

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        self.trained.setdefault(self.current_epoch, []).extend(numbers_in(batch))
        return self.layer(batch["values"].float() / 1e6).square().mean()  # type: ignore[no-any-return]

    def validation_step(self, batch: Any, number: int) -> None:
        if number == 0:
            self.validated.append([])
        self.validated[-1] += numbers_in(batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


def trainer(folder: Path, **options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    settings = {"enable_checkpointing": False, "accelerator": "cpu", "default_root_dir": folder, **quiet, **options}
    return pl.Trainer(**settings)


def order(epoch: int) -> list[int]:
    return shuffled(COUNT, 0, epoch)


def test_epochs_follow_each_other(ds: cw.Dataset, tmp_path: Path) -> None:
    before = Leftovers.now()
    model, loader = Model(), Loader(ds, BATCH, True)
    fit = trainer(tmp_path, max_epochs=3)
    fit.fit(model, loader)
    assert model.trained == {epoch: order(epoch) for epoch in range(3)}
    assert fit.global_step == 3 * STEPS
    assert loader.state_dict()["epoch"] == 3
    del fit, model, loader
    assert Leftovers.now() == before


def test_validation_with_a_loader_of_its_own(ds: cw.Dataset, tmp_path: Path) -> None:
    model = Model()
    training, validation = Loader(ds[:40], BATCH, True), Loader(ds[40:], 4)
    trainer(tmp_path, max_epochs=2, num_sanity_val_steps=1).fit(model, training, validation)
    assert model.validated == [[40, 41, 42, 43], list(range(40, 50)), list(range(40, 50))]
    assert all(sorted(epoch) == list(range(40)) for epoch in model.trained.values())
    assert len(model.trained) == 2


def test_some_batches_of_an_epoch(ds: cw.Dataset, tmp_path: Path) -> None:
    model = Model()
    trainer(tmp_path, max_epochs=2, limit_train_batches=2).fit(model, Loader(ds, BATCH, True))
    assert model.trained == {epoch: order(epoch)[: 2 * BATCH] for epoch in range(2)}


class DiedError(Exception):
    """A job that dies."""


class DiesAfter(pl.Callback):  # type: ignore[misc, name-defined]
    """Saves a checkpoint after so many steps, and lets the training end with an error a step later."""

    def __init__(self, steps: int, path: Path) -> None:
        self.steps = steps
        self.path = path

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.steps:
            trainer.save_checkpoint(self.path)
        elif trainer.global_step == self.steps + 1:
            raise DiedError


@pytest.mark.parametrize("steps", [1, 3, STEPS - 1, STEPS + 2, 2 * STEPS - 1])
def test_a_checkpoint_resumes_with_the_very_next_sample(ds: cw.Dataset, tmp_path: Path, steps: int) -> None:
    dying, checkpoint = Model(), tmp_path / "checkpoint.ckpt"
    fit = trainer(tmp_path, max_epochs=3, callbacks=[DiesAfter(steps, checkpoint)])
    with pytest.raises(DiedError):
        fit.fit(dying, Loader(ds, BATCH, True))
    (kept,) = torch.load(checkpoint, weights_only=True)["loops"]["fit_loop"]["state_dict"]["combined_loader"]
    assert (kept["epoch"], kept["consumed"]) == (steps // STEPS, steps % STEPS * BATCH)

    model, again = Model(), tmp_path / "again.ckpt"
    middle = trainer(tmp_path, max_epochs=3, callbacks=[DiesAfter(steps + 2, again)])
    with pytest.raises(DiedError):
        middle.fit(model, Loader(ds, BATCH, True), ckpt_path=checkpoint)
    last = Model()
    trainer(tmp_path, max_epochs=3).fit(last, Loader(ds, BATCH, True), ckpt_path=again)

    whole = [number for epoch in range(3) for number in order(epoch)]
    received = samples_after(steps)
    assert seen(dying)[:received] == whole[:received]
    assert seen(model)[: samples_after(steps + 2) - received] == whole[received : samples_after(steps + 2)]
    assert seen(last) == whole[samples_after(steps + 2) :]


def seen(model: Model) -> list[int]:
    return [number for epoch in sorted(model.trained) for number in model.trained[epoch]]


def samples_after(steps: int) -> int:
    return steps // STEPS * COUNT + steps % STEPS * BATCH


def test_a_checkpoint_at_an_epochs_end(ds: cw.Dataset, tmp_path: Path) -> None:
    first = Model()
    saving = pl.callbacks.ModelCheckpoint(tmp_path, save_last=True)
    trainer(tmp_path, max_epochs=2, enable_checkpointing=True, callbacks=[saving]).fit(first, Loader(ds, BATCH, True))
    second = Model()
    trainer(tmp_path, max_epochs=4).fit(second, Loader(ds, BATCH, True), ckpt_path=tmp_path / "last.ckpt")
    assert first.trained == {0: order(0), 1: order(1)}
    assert second.trained == {2: order(2), 3: order(3)}


def test_a_datamodule(ds: cw.Dataset, tmp_path: Path) -> None:
    class Data(pl.LightningDataModule):  # type: ignore[misc, name-defined]
        def train_dataloader(self) -> Loader:
            return Loader(ds, BATCH, True, drop_last=True)

        def predict_dataloader(self) -> Loader:
            return Loader(ds, BATCH)

    class Predicting(Model):
        def predict_step(self, batch: Any, number: int) -> Any:
            return batch["number"]

    model, data = Predicting(), Data()
    # A new loader every epoch: Lightning tells it which one it is.
    fit = trainer(tmp_path, max_epochs=2, reload_dataloaders_every_n_epochs=1)
    fit.fit(model, datamodule=data)
    assert {len(epoch) for epoch in model.trained.values()} == {48}
    predicted = fit.predict(model, datamodule=data)
    assert torch.cat(predicted).tolist() == list(range(COUNT))
