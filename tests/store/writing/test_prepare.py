"""Samples in the terms of a schema: labels that have names must be among them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import UsageError


@pytest.mark.parametrize(
    ("good", "bad", "told"),
    [
        (1, 2, "label 2 came, but there are 2 classes, 0 to 1"),
        (0, -1, "label -1 came"),
        (torch.tensor(1), torch.tensor(7), "label 7 came"),
        (np.uint8(1), np.uint8(200), "label 200 came"),
        (torch.tensor([0, 1]), torch.tensor([1, 0, 5]), "label 5 came"),
    ],
)
@pytest.mark.parametrize("before", [0, 300], ids=["looking", "after the look"])
def test_a_label_without_a_name_is_refused(tmp_path: Path, good: Any, bad: Any, told: str, before: int) -> None:
    label = cw.Field(classes=["cat", "dog"], optional=True)
    with cw.Writer(tmp_path / "s", fields={"label": label}) as writer:
        for _ in range(before):
            writer.append({"label": good})
        with pytest.raises(UsageError, match=f"field 'label': the {told}"):
            writer.append({"label": bad})
        writer.append({"label": good})
        writer.append({"label": None})
    assert len(cw.open(tmp_path / "s")) == before + 2


def test_labels_are_checked_by_a_writer_that_goes_on(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s", fields={"label": cw.Field(classes=["cat", "dog"])}) as writer:
        writer.append({"label": 1})
    with cw.Writer(tmp_path / "s", mode="append") as writer:
        with pytest.raises(UsageError, match="label 2 came"):
            writer.append({"label": 2})
        writer.append({"label": 0})
    assert cw.open(tmp_path / "s").targets == [1, 0]
