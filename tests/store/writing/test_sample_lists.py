"""Lists of samples that have columns alone: taken together, they are what they are one by one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import UsageError
from cordwood.store.writing.prepare import Preparer
from tests.store.support.samples import assert_same_sample

COUNT = 600  # the first 256 of which fix the schema


class Text(str):
    """A key that is equal to another one, and of another type."""


def samples() -> list[Any]:
    chance = np.random.default_rng(7)
    floats = chance.standard_normal((COUNT, 8)).astype(np.float32)
    floats[300:310].view(np.uint32)[:] = 0x7F800001  # NaNs that arithmetic would change
    return [
        {
            "id": int(chance.integers(-(1 << 63), 1 << 62)),
            "features": floats[i],
            "tensor": torch.from_numpy(floats[i, :4].copy()),
            "number": torch.tensor(i),
            "scalar": floats[i, 0],
            "pair": (bool(i & 1), {"weight": i / 7}),
        }
        for i in range(COUNT)
    ]


def written(path: Path, parts: list[list[Any]]) -> Path:
    with cw.Writer(path) as writer:
        for part in parts:
            writer.extend(part)
    return path


def shard(path: Path) -> bytes:
    return (path / "shard-00000000.cws").read_bytes()


def test_bytes_are_those_of_samples_one_by_one(tmp_path: Path) -> None:
    given = samples()
    together = written(tmp_path / "together", [given[:256], given[256:]])
    alone = written(tmp_path / "alone", [given[:256], *([one] for one in given[256:])])
    assert shard(together) == shard(alone)
    dataset = cw.open(together)
    for number in (0, 299, 305, COUNT - 1):
        assert_same_sample(dataset[number], given[number])


def test_they_are_not_taken_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = samples()
    with cw.Writer(tmp_path / "store") as writer:
        writer.extend(given[:256])
        monkeypatch.delattr(Preparer, "prepare")
        writer.extend(given[256:])
        with pytest.raises(AttributeError, match="prepare"):
            writer.append(given[0])


def test_views_and_other_shapes(tmp_path: Path) -> None:
    given = samples()
    wide = np.arange(16, dtype=np.float32)
    for number in range(256, COUNT):
        given[number]["features"] = wide[::-2]
    given[400]["features"] = wide  # of another shape than the column
    given[500]["tensor"] = torch.arange(4.0, requires_grad=True) * 2
    together = written(tmp_path / "together", [given[:256], given[256:390], given[390:450], given[450:]])
    dataset = cw.open(together)
    for number in (300, 400, 420, 500):
        assert_same_sample(dataset[number], {**given[number], "tensor": given[number]["tensor"].detach()})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.update(id=1 << 63), "64 bits"),
        (lambda one: one.update(id=True), "id"),
        (lambda one: one.update(id=None), "id"),
        (lambda one: one.update(features=one["features"].astype(np.float64)), "features"),
        (lambda one: one.update(features=one["features"].astype(">f8")), "features"),
        (lambda one: one.update(features=one["features"].tolist()), "features"),
        (lambda one: one.update(tensor=one["tensor"].to(torch.float16)), "tensor"),
        (lambda one: one.update(number=torch.tensor([1])), "number"),
        (lambda one: one.update(scalar=np.float64(1)), "scalar"),
        (lambda one: one.update(pair=[True, {"weight": 1.0}]), "pair"),
        (lambda one: one.update(pair=(True, {"weight": 1})), "weight"),
        (lambda one: one.update(pair=(True, {"weight": 1.0}, 2)), "pair"),
        (lambda one: one.update(more=1), "more"),
        (lambda one: one.pop("id"), "id"),
        (lambda one: one.update({Text("id"): one.pop("id")}), "key"),
        (lambda one: one.update({1: one.pop("id")}), "key"),
    ],
)
def test_one_that_does_not_fit_is_named_and_none_is_taken(
    change: Callable[[dict[Any, Any]], object], said: str, tmp_path: Path
) -> None:
    given = samples()
    wrong = [dict(one) for one in given[256:]]
    change(wrong[100])
    with cw.Writer(tmp_path / "store") as writer:
        writer.extend(given[:256])
        with pytest.raises(UsageError, match=r"row 100 of 344: (?s:.*)" + said):
            writer.extend(wrong)
        assert len(writer) == 256
        writer.extend(given[256:])
    assert len(cw.open(tmp_path / "store")) == COUNT


def test_something_else_among_samples(tmp_path: Path) -> None:
    given = samples()
    with cw.Writer(tmp_path / "store") as writer:
        writer.extend(given[:256])
        with pytest.raises(UsageError, match="row 3 of 44"):
            writer.extend([*given[256:259], None, *given[260:300]])
