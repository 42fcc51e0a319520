"""Hugging Face's Trainer and Accelerate, over a store by the stock DataLoader and by a Loader."""

import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import cordwood as cw
from cordwood import Loader
from tests.feed.support.leftovers import Leftovers
from tests.feed.support.plain_order import shuffled
from tests.store.support.packed import pack

COUNT, BATCH, LENGTH = 40, 8, 6


with warnings.catch_warnings(), pytest.MonkeyPatch.context() as environment:
    warnings.simplefilter("ignore")  # of what they import
    environment.setenv("HF_HUB_OFFLINE", "1")  # which is looked at then
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed: pip install '.[test]'")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install '.[test]'")

# What they have to say about this machine and this model is not the point.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """For a model so small, others only get into each other's way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    """Tokens and a label; the first token is the number of the sample."""
    samples = [
        {
            "input_ids": torch.tensor([number, *range(1, LENGTH)]),
            "attention_mask": torch.ones(LENGTH, dtype=torch.int64),
            "labels": number % 2,
        }
        for number in range(COUNT)
    ]
    return pack(tmp_path_factory.mktemp("huggingface") / "s", samples, "fast")


class Seen:
    """A tiny model for sequences, made from a configuration, and what it is given in training and in evaluation."""

    def __init__(self) -> None:
        sizes = {"vocab_size": COUNT, "hidden_size": 8, "intermediate_size": 8, "max_position_embeddings": LENGTH}
        config = transformers.BertConfig(num_hidden_layers=1, num_attention_heads=1, num_labels=2, **sizes)
        self.model = transformers.BertForSequenceClassification(config)
        self.trained: list[int] = []
        self.evaluated: list[int] = []
        self.model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, module: Any, args: Any, given: dict[str, Any]) -> None:
        assert {"input_ids", "attention_mask", "labels"} <= set(given)
        assert torch.equal(given["input_ids"][:, 1:], torch.arange(1, LENGTH).expand(len(given["labels"]), -1))
        assert torch.equal(given["labels"], given["input_ids"][:, 0] % 2)
        (self.trained if module.training else self.evaluated).extend(given["input_ids"][:, 0].tolist())


def arguments(folder: Path, **options: Any) -> Any:
    batches = {"per_device_train_batch_size": BATCH, "per_device_eval_batch_size": BATCH}
    quiet = {"report_to": [], "disable_tqdm": True, "logging_strategy": "no", "save_strategy": "no"}
    return transformers.TrainingArguments(str(folder), use_cpu=True, num_train_epochs=2, **batches, **quiet, **options)


def each_once_an_epoch(numbers: list[int], epochs: int = 2) -> bool:
    return all(sorted(numbers[n * COUNT : (n + 1) * COUNT]) == list(range(COUNT)) for n in range(epochs))


# ---- the Trainer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_the_trainer_reads_a_store_as_any_dataset(ds: cw.Dataset, tmp_path: Path, workers: int) -> None:
    before = Leftovers.now()
    seen = Seen()
    options = arguments(tmp_path, dataloader_num_workers=workers)
    trainer = transformers.Trainer(seen.model, options, train_dataset=ds, eval_dataset=ds[:10])
    trainer.train()
    assert len(seen.trained) == 2 * COUNT
    assert each_once_an_epoch(seen.trained)
    assert seen.trained[:COUNT] != seen.trained[COUNT:]
    trainer.evaluate()
    assert seen.evaluated == list(range(10))
    assert trainer.predict(ds.subset([5, 3])).label_ids.tolist() == [1, 1]
    del trainer
    assert Leftovers.now() == before


def test_the_trainer_with_a_loader_of_its_own(ds: cw.Dataset, tmp_path: Path) -> None:
    class OverStore(transformers.Trainer):  # type: ignore[misc, name-defined]
        def get_train_dataloader(self) -> Loader:
            return Loader(self.train_dataset, BATCH, True)

    seen = Seen()
    OverStore(seen.model, arguments(tmp_path), train_dataset=ds).train()
    assert seen.trained == [number for epoch in range(2) for number in order(epoch)]


def order(epoch: int) -> list[int]:
    return shuffled(COUNT, 0, epoch)


# ---- Accelerate ------------------------------------------------------------------------------------------------------


def train(accelerator: Any, model: Any, optimizer: Any, batches: Any) -> None:
    model.train()
    for batch in batches:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()


def test_accelerate_prepares_the_stock_loader(ds: cw.Dataset) -> None:
    accelerator = accelerate.Accelerator(cpu=True)
    seen = Seen()
    stock = DataLoader(ds, BATCH, shuffle=True, num_workers=1)
    optimizer = torch.optim.SGD(seen.model.parameters(), 0.1)
    model, prepared, loader = accelerator.prepare(seen.model, optimizer, stock)
    for _ in range(2):
        train(accelerator, model, prepared, loader)
    assert each_once_an_epoch(seen.trained)
    seen.trained.clear()
    train(accelerator, model, prepared, accelerator.skip_first_batches(loader, 3))
    assert len(seen.trained) == COUNT - 3 * BATCH
    assert Counter(seen.trained).most_common(1)[0][1] == 1


def test_accelerate_takes_a_loader_and_its_checkpoints_have_its_state(ds: cw.Dataset, tmp_path: Path) -> None:
    accelerator = accelerate.Accelerator(cpu=True)
    seen = Seen()
    optimizer = torch.optim.SGD(seen.model.parameters(), 0.1)
    model, prepared, loader = accelerator.prepare(seen.model, optimizer, Loader(ds, BATCH, True))
    assert isinstance(loader, Loader)
    accelerator.register_for_checkpointing(loader)
    train(accelerator, model, prepared, loader)
    iterator = iter(loader)
    train(accelerator, model, prepared, [next(iterator), next(iterator)])
    accelerator.save_state(str(tmp_path / "checkpoint"))
    train(accelerator, model, prepared, iterator)
    assert seen.trained == order(0) + order(1)

    accelerator.load_state(str(tmp_path / "checkpoint"))
    seen.trained.clear()
    train(accelerator, model, prepared, loader)
    train(accelerator, model, prepared, loader)
    assert seen.trained == order(1)[2 * BATCH :] + order(2)
