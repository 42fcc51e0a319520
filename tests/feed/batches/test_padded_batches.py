"""Rows of different lengths are decoded straight into their padded batch, and are what padding afterwards gives."""

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

import cordwood as cw
from cordwood.errors import UsageError
from cordwood.feed.batches.padding import pad


def written(folder: Path, samples: list[Any], **options: Any) -> cw.Dataset:
    with cw.Writer(folder, **options) as writer:
        for sample in samples:
            writer.append(sample)
    return cw.open(folder)


DTYPES = [torch.int64, torch.int32, torch.uint8, torch.float32, torch.bfloat16, torch.float64, torch.bool]


@pytest.mark.slow
@given(st.lists(st.one_of(st.none(), st.integers(0, 40)), min_size=1, max_size=30), st.sampled_from(DTYPES), st.data())
def test_batches_are_those_of_padding_the_list(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int | None], dtype: torch.dtype, data: st.DataObject
) -> None:
    fill = data.draw(st.sampled_from([0, 1]))
    batch_size = data.draw(st.integers(1, 31))
    rows = [None if n is None else torch.randint(0, 2, (n,)).to(dtype) for n in lengths]
    first: list[Any] = [{"row": torch.zeros(3, dtype=dtype), "n": -1}]  # so that the field's dtype is known
    samples = first + [{"row": row, "n": n} for n, row in enumerate(rows)]
    ds = written(tmp_path_factory.mktemp("store") / "s", samples, goal=data.draw(st.sampled_from(["raw", "fast"])))
    for batch in cw.Loader(ds[1:], batch_size=batch_size, shuffle=True, collate={"row": ("pad", fill)}):
        expected = pad([rows[n] for n in batch["n"].tolist()], fill)
        assert isinstance(batch["row"], cw.Padded)
        assert torch.equal(batch["row"].lengths, expected.lengths)
        assert batch["row"].values.dtype == dtype
        assert torch.equal(batch["row"].values, expected.values.to(dtype))


def test_arrays_of_more_dimensions_are_padded_too(tmp_path: Path) -> None:
    images = [torch.full((2, n, 3), float(n)) for n in (1, 4, 2)]
    ds = written(tmp_path / "s", [{"image": image} for image in images])
    (batch,) = cw.Loader(ds, batch_size=3, collate={"image": "pad"})
    assert batch["image"].values.shape == (3, 2, 4, 3)
    assert batch["image"].lengths.tolist() == [[2, 1, 3], [2, 4, 3], [2, 2, 3]]


def test_a_value_that_does_not_fit_the_dtype_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    ds = written(tmp_path / "s", [{"row": torch.zeros(n, dtype=torch.uint8)} for n in (1, 2)])
    with pytest.raises(UsageError, match="uint8, which cannot be filled with -100"):
        next(iter(cw.Loader(ds, batch_size=2, collate={"row": ("pad", -100)})))
