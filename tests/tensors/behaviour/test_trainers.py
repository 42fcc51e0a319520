"""Checkpoints that Lightning and Hugging Face's Trainer write: read, saved, trimmed, and trained on from."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import cordwood as cw
from tests.tensors.support.same import assert_same

# What these have to say about this machine and this model is not the point.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def quiet_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", ["again.ckpt", "again.cord"])
def test_a_checkpoint_of_lightning_is_the_same_and_goes_on(name: str, tmp_path: Path) -> None:
    pl = pytest.importorskip("pytorch_lightning", reason="pytorch_lightning is not installed: pip install '.[test]'")

    class Model(pl.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, rate: float = 0.1) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            return self.layer(batch[0]).mean()  # type: ignore[no-any-return]

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams["rate"])
            return {
                "optimizer": optimizer,
                "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3),
            }

    def trainer(**options: Any) -> Any:
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
        return pl.Trainer(accelerator="cpu", default_root_dir=tmp_path, **quiet, **options)

    batches = DataLoader(TensorDataset(torch.rand(16, 4)), 4)
    trainer(max_epochs=2).fit(Model(), batches)
    (written,) = tmp_path.rglob("*.ckpt")
    expected = torch.load(written)
    assert_same(expected, cw.load(written))
    cw.save(expected, tmp_path / name)
    assert_same(expected, cw.load(tmp_path / name))
    cw.trim(written, tmp_path / "trimmed.ckpt")
    assert_same(expected, torch.load(tmp_path / "trimmed.ckpt"))
    if name.endswith(".ckpt"):
        again = trainer(max_epochs=3, enable_checkpointing=False)
        again.fit(Model(), batches, ckpt_path=tmp_path / name)
        assert (again.current_epoch, again.global_step) == (3, 12)


def test_a_checkpoint_of_hugging_faces_trainer_is_read_where_torch_reads_it(tmp_path: Path) -> None:
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed: pip install '.[test]'", exc_type=ImportError
    )
    transformers.logging.set_verbosity_error()
    config = transformers.BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=30
    )
    samples = [{"input_ids": torch.tensor([1, 2, 3]), "labels": torch.tensor(number % 2)} for number in range(8)]
    arguments = transformers.TrainingArguments(
        str(tmp_path), max_steps=2, save_steps=2, report_to=[], use_cpu=True, disable_tqdm=True
    )
    model = transformers.BertForSequenceClassification(config)
    transformers.Trainer(model, arguments, train_dataset=samples).train()
    folder = tmp_path / "checkpoint-2"
    weights, state = dict(model.state_dict()), cw.load(folder / "model.safetensors")
    assert len(weights) == len(state)
    assert_same(weights, {name: state[name] for name in weights})
    for name in ("optimizer.pt", "scheduler.pt"):
        assert_same(torch.load(folder / name), cw.load(folder / name))
    for name in ("rng_state.pth", "training_args.bin"):  # they hold NumPy's state, and a class of transformers'
        with pytest.raises(cw.UnsafePickleError):
            cw.load(folder / name)
        with pytest.raises(Exception, match="Weights only load failed"):
            torch.load(folder / name)
        assert type(cw.load(folder / name, weights_only=False)) is type(torch.load(folder / name, weights_only=False))
