"""Batches cut into rows."""

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from cordwood.errors import UsageError
from cordwood.store.writing.batch_rows import refuse_collated, rows
from tests.store.support.samples import assert_same_sample

Pair = namedtuple("Pair", ["image", "label"])
IMAGES = torch.arange(24).reshape(4, 2, 3)
LABELS = torch.arange(4)
PATHS = ["a", "bb", "ccc", "dddd"]


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (IMAGES, [IMAGES[i] for i in range(4)]),
        (LABELS, [LABELS[i] for i in range(4)]),
        (IMAGES.numpy(), [IMAGES.numpy()[i] for i in range(4)]),
        (LABELS.numpy(), [np.int64(i) for i in range(4)]),
        ((IMAGES, LABELS), [(IMAGES[i], LABELS[i]) for i in range(4)]),
        (Pair(IMAGES, PATHS), [Pair(IMAGES[i], PATHS[i]) for i in range(4)]),
        ({"x": IMAGES, "p": PATHS}, [{"x": IMAGES[i], "p": PATHS[i]} for i in range(4)]),
        (OrderedDict(x=IMAGES), [OrderedDict(x=IMAGES[i]) for i in range(4)]),
        ({"m": {"p": PATHS, "x": LABELS}}, [{"m": {"p": PATHS[i], "x": LABELS[i]}} for i in range(4)]),
        ((IMAGES, tuple(PATHS)), [(IMAGES[i], PATHS[i]) for i in range(4)]),
        ({"p": PATHS}, [{"p": path} for path in PATHS]),
        ({"x": IMAGES, "boxes": [IMAGES[0]] * 4}, [{"x": IMAGES[i], "boxes": IMAGES[0]} for i in range(4)]),
        ({"x": IMAGES, "pair": [LABELS, LABELS]}, [{"x": IMAGES[i], "pair": [LABELS[i]] * 2} for i in range(4)]),
        ({"x": IMAGES, "pair": (LABELS, PATHS)}, [{"x": IMAGES[i], "pair": (LABELS[i], PATHS[i])} for i in range(4)]),
        ({"x": IMAGES, "none": {}}, [{"x": IMAGES[i], "none": {}} for i in range(4)]),
        (IMAGES[:0], []),
        ({"x": IMAGES[:0], "p": []}, []),
    ],
)
def test_rows(batch: Any, expected: list[Any]) -> None:
    assert_same_sample(rows(batch), expected)


def test_rows_are_views() -> None:
    cut = rows({"x": IMAGES, "y": IMAGES.numpy()})
    assert all(row["x"].data_ptr() == IMAGES[i].data_ptr() for i, row in enumerate(cut))
    assert all(np.shares_memory(row["y"], IMAGES.numpy()) for row in cut)


def test_it_undoes_what_collate_did() -> None:
    samples = [{"x": IMAGES[i], "m": {"path": PATHS[i], "pair": (LABELS[i], IMAGES[i])}} for i in range(4)]
    again = rows(default_collate(samples))
    for sample, row in zip(samples, again, strict=True):
        sample["m"]["pair"] = list(sample["m"]["pair"])  # type: ignore[index] # collate makes lists of tuples
        assert_same_sample(row, sample)


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({"x": IMAGES, "y": LABELS[:3]}, r"part 'y' of the batch has shape \(3,\), but other parts have 4 rows"),
        ({"x": IMAGES, "m": {"y": PATHS[:3]}}, r"part 'm\.y' of the batch has 3 items"),
        ((IMAGES, 5), "part '1' of the batch is 5"),
        (Pair(IMAGES, "abcd"), "part 'label' of the batch is 'abcd'"),
        ({"x": IMAGES, "y": torch.tensor(1)}, "part 'y' of the batch has shape"),
        (torch.tensor(1), "a batch of no dimension"),
        ({}, "no batch that could be cut into rows"),
        ((), "no batch that could be cut into rows"),
        ({"a": 1}, "no batch that could be cut into rows"),
        ({"x": IMAGES[:2], "two": [LABELS[:2], LABELS[:2]]}, "is there one a row, or has every row 2 of them"),
    ],
)
def test_batches_that_cannot_be_cut(batch: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        rows(batch)


def test_a_list_that_collate_made_of_tuples_is_not_taken_for_samples() -> None:
    collated = default_collate([(IMAGES[i], LABELS[i], PATHS[i]) for i in range(4)])
    assert isinstance(collated, list)
    with pytest.raises(UsageError, match=r"columns of a batch of 4.*pass tuple\(batch\)"):
        refuse_collated(collated)
    assert len(rows(tuple(collated))) == 4


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [1, 2],
        [IMAGES, IMAGES],
        [IMAGES[0], IMAGES[:, 0]],
        [LABELS, LABELS],
        [{"x": IMAGES}],
        ["a", "b"],
        [LABELS[0]],
    ],
)
def test_lists_of_samples_are(samples: list[Any]) -> None:
    refuse_collated(samples)
