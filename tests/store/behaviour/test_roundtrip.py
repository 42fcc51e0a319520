"""Any samples through a store on disk: they come back as they went in, one by one and by name."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import cordwood as cw
from cordwood.errors import UsageError
from tests.store.support.samples import assert_same_sample, datasets, values


def written(samples: list[Any], folder: str, **options: Any) -> Path:
    path = Path(folder) / "any.cordwood"
    with cw.Writer(path, **options) as writer:
        for sample in samples:
            writer.append(sample)
    return path


@settings(max_examples=40)
@given(datasets(max_size=6), st.sampled_from(["raw", "balanced"]), st.sampled_from([1, 1 << 26]))
def test_samples_of_one_structure(samples: list[Any], goal: str, shard_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset = cw.open(written(samples, folder, goal=goal, shard_bytes=shard_bytes))
        assert len(dataset) == len(samples)
        for number, sample in enumerate(samples):
            assert_same_sample(sample, dataset[number])
        for sample, again in zip(samples, dataset.__getitems__(list(range(len(samples)))), strict=True):
            assert_same_sample(sample, again)


@settings(max_examples=40)
@given(st.lists(values().filter(lambda value: value is not None), min_size=1, max_size=4))
def test_samples_that_have_nothing_in_common(samples: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            dataset = cw.open(written(samples, folder))
        except UsageError as error:  # keys 1 and "1"
            assert "both called" in str(error)
            return
        for number, sample in enumerate(samples):
            assert_same_sample(sample, dataset[number])
