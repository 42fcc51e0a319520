"""The stock DataLoader, with workers of every kind."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    default_collate,
    default_convert,
    random_split,
)

import cordwood as cw
from tests.store.support.packed import coded, images, pack
from tests.store.support.samples import Point, assert_same_sample

# That workers are forked beside other threads is no news to torch.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
SECONDS = 120  # then a worker hangs, and the loader raises


def samples() -> list[dict[str, Any]]:
    return [
        image | {"coded": tensor, "named": Point(number, torch.tensor([number]))}
        for number, (image, tensor) in enumerate(zip(images(30), coded(30), strict=True))
    ]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("workers") / "s"
    pack(made, samples(), "small", shard_bytes=2000, fields={"label": cw.Field(classes=["a", "b", "c"])})
    assert len(list(made.glob("shard-*"))) > 2
    return made


def loader(dataset: Any, workers: int = 0, context: str | None = None, **options: Any) -> DataLoader[Any]:
    given: dict[str, Any] = {"timeout": SECONDS, "multiprocessing_context": context} if workers else {}
    return DataLoader(dataset, num_workers=workers, **given, **options)


def assert_batches(batches: list[Any], size: int) -> None:
    """Fail unless these are all samples in order, as the stock collate puts them together."""
    expected = samples()
    assert len(batches) == -(-len(expected) // size)
    for number, batch in enumerate(batches):
        assert_same_sample(batch, default_collate(expected[number * size : (number + 1) * size]))


def test_without_workers(path: Path) -> None:
    assert_batches(list(loader(cw.open(path), batch_size=7)), 7)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_two_workers_of_every_kind(path: Path, context: str) -> None:
    ds = cw.open(path)
    ds[[0, 20]]  # the parent has mapped shards and used its threads
    assert_batches(list(loader(ds, 2, context, batch_size=7)), 7)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_by_the_dataset_itself(path: Path, workers: int) -> None:
    """With a sampler of batches the loader asks for lists, and each is one native call."""
    ds = cw.open(path).select("image", "label")
    batches = loader(ds, workers, "fork", sampler=BatchSampler(SequentialSampler(ds), 8, False), batch_size=None)
    found = [(picture.shape, labels.tolist()) for picture, labels in batches]
    labels = [number % 3 for number in range(30)]
    assert found == [((len(part), 3, 4, 5), part) for part in (labels[:8], labels[8:16], labels[16:24], labels[24:])]


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_one_by_one(path: Path, workers: int) -> None:
    found = list(loader(cw.open(path), workers, "fork", batch_size=None))
    for one, expected in zip(found, samples(), strict=True):
        assert_same_sample(one, default_convert(expected))


@pytest.mark.parametrize("workers", [0, 2])
def test_views_subsets_and_splits(path: Path, workers: int) -> None:
    ds = cw.open(path)
    parts = random_split(ds[::2], [10, 5], generator=torch.Generator().manual_seed(0))
    views: dict[str, Any] = {
        "part": parts[0],
        "subset": Subset(ds, range(1, 9)),
        "ours": ds.subset([3, 2, 1]),
        "both": cw.concat([ds, ds]),
    }
    for view in views.values():
        found = [
            number
            for batch in loader(view, workers, "fork", batch_size=4)
            for number in batch["meta"]["size"][0].tolist()
        ]
        assert found == [view[i]["meta"]["size"][0] for i in range(len(view))]


def test_shuffled_again_every_epoch_by_workers_that_stay(path: Path) -> None:
    ds = cw.open(path).select("meta.size.0", "coded")
    shuffled = RandomSampler(ds, generator=torch.Generator().manual_seed(1))
    made = loader(ds, 2, "fork", batch_size=4, sampler=shuffled, persistent_workers=True)
    epochs = []
    for _ in range(2):
        order = []
        for numbers, tensors in made:
            for number, tensor in zip(numbers.tolist(), tensors, strict=True):
                assert_same_sample(tensor, coded(30)[number])
                order.append(number)
        epochs.append(order)
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(30))
    assert epochs[0] != epochs[1]


@pytest.mark.slow
@pytest.mark.parametrize("size", [20_000, 1_200_000])
def test_memory_that_workers_use_again_shows_nothing_else(tmp_path: Path, size: int) -> None:
    """Both workers come with the memory that the parent had left over."""
    ds = pack(tmp_path / "s", [torch.full((size,), i, dtype=torch.int32) for i in range(8)], "raw")
    for i in range(8):
        ds[i]
    order = [[number] for turn in range(3) for number in range(8)]
    kept = list(loader(ds, 2, "fork", sampler=order, batch_size=None, prefetch_factor=4))
    again = list(loader(ds, 2, "fork", sampler=order, batch_size=None))
    for found in (kept, again):
        assert [tensor.min().item() for tensor in found] == [number for (number,) in order]
        assert [tensor.max().item() for tensor in found] == [number for (number,) in order]


def test_workers_see_the_length_that_the_parent_saw(tmp_path: Path) -> None:
    ds = pack(tmp_path / "s", list(range(5)))
    sent = pickle.dumps(ds)
    with cw.Writer(tmp_path / "s", mode="append") as writer:
        writer.extend(range(5, 9))
    assert [batch.tolist() for batch in loader(ds, 2, "fork", batch_size=3)] == [[0, 1, 2], [3, 4]]
    assert [batch.tolist() for batch in loader(pickle.loads(sent), batch_size=3)] == [[0, 1, 2], [3, 4]]
    assert len(cw.open(tmp_path / "s")) == 9


def test_damage_met_by_a_worker_is_told_in_the_parent(tmp_path: Path) -> None:
    ds = pack(tmp_path / "s", [torch.arange(100) + i for i in range(4)], "raw", shard_bytes=1)
    (tmp_path / "s" / "shard-00000002.cws").unlink()
    with pytest.raises(cw.FormatError, match=r"shard-00000002.cws.*samples 2 to 2 cannot be read"):
        list(loader(ds, 2, "fork", batch_size=2))
