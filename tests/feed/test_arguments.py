"""What a Loader takes for a dataset."""

from pathlib import Path

import pytest
import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset, random_split

import cordwood as cw
from cordwood.errors import UsageError
from cordwood.feed.arguments import store_of


@pytest.fixture
def dataset(tmp_path: Path) -> cw.Dataset:
    with cw.Writer(tmp_path / "store") as writer:
        for number in range(20):
            writer.append({"n": number})
    return cw.open(tmp_path / "store")


def numbers(dataset: cw.Dataset) -> list[int]:
    return dataset.column("n").tolist()


def test_a_store_is_taken_as_it_is(dataset: cw.Dataset) -> None:
    assert store_of(dataset) is dataset


def test_subsets_of_subsets_are_one_choice(dataset: cw.Dataset) -> None:
    inner = Subset(dataset[5:], [3, 1, 0, 9])
    assert numbers(store_of(inner)) == [8, 6, 5, 14]
    assert numbers(store_of(Subset(inner, [2, 0]))) == [5, 8]
    one, other = random_split(dataset, [0.7, 0.3], generator=torch.Generator().manual_seed(0))
    assert sorted(numbers(store_of(one)) + numbers(store_of(other))) == list(range(20))


def test_datasets_put_together_by_torch(dataset: cw.Dataset) -> None:
    both: ConcatDataset[object] = ConcatDataset([dataset[:2], Subset(dataset, [7])])
    assert numbers(store_of(both)) == [0, 1, 7]


@pytest.mark.parametrize("wrong", [TensorDataset(torch.zeros(3)), [1, 2], None])
def test_anything_else_is_refused_with_what_to_do(wrong: object) -> None:
    with pytest.raises(UsageError, match=r"cw\.open.*pack it with cw\.pack;.*cw\.prefetch"):
        store_of(wrong)


@pytest.mark.parametrize("path", ["train.cordwood", Path("train.cordwood")])
def test_a_path_is_to_be_opened(path: object) -> None:
    with pytest.raises(UsageError, match=r"not a path: cw\.Loader\(cw\.open\('train\.cordwood'\), \.\.\.\)$"):
        store_of(path)
