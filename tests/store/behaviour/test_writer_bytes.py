"""The bytes of a store depend on the samples and the options, and on nothing else."""

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cordwood as cw
from tests.marks import slow_after
from tests.store.support.photos import files_of, photo, write

COUNT = 600
OPTIONS: dict[str, Any] = {"shard_bytes": 9000, "fields": {"meta.boxes": cw.Field(store_as="float16")}}
SAMPLES = [photo(i) for i in range(COUNT)]
for _sample in SAMPLES[256:]:  # plans would be others if these were looked at
    _sample["meta"]["boxes"] = torch.arange(80.0).reshape(20, 4)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    made = files_of(write(tmp_path_factory.mktemp("one") / "s", SAMPLES, threads=1, **OPTIONS))
    assert sum(name.startswith("shard-") for name in made) > 5
    return made


@pytest.mark.parametrize("threads", slow_after(1, [2, 1, 3, None]))
def test_the_number_of_threads(threads: int | None, expected: dict[str, bytes], tmp_path: Path) -> None:
    assert files_of(write(tmp_path / "s", SAMPLES, threads=threads, **OPTIONS)) == expected


@pytest.mark.parametrize("seed", range(6))
def test_how_samples_are_handed_over(seed: int, expected: dict[str, bytes], tmp_path: Path) -> None:
    chance = random.Random(seed)
    done = 0
    with cw.Writer(tmp_path / "s", threads=chance.choice([1, 2]), **OPTIONS) as writer:
        while done < COUNT:
            end = min(COUNT, done + chance.choice([1, 1, 2, 10, 300, COUNT]))
            way = chance.randrange(3) if end > done + 1 else 3
            if way == 0:
                writer.extend(SAMPLES[done:end])
            elif way == 1:
                writer.extend(iter(SAMPLES[done:end]))
            else:
                for sample in SAMPLES[done:end]:
                    writer.append(sample)
            done = end
    assert files_of(tmp_path / "s") == expected


def test_a_batch_gives_the_bytes_of_its_rows(tmp_path: Path) -> None:
    images, labels = torch.arange(500 * 48).reshape(500, 3, 4, 4).to(torch.uint8), np.arange(500)
    with cw.Writer(tmp_path / "rows", shard_bytes=5000) as writer:
        for i in range(500):
            writer.append({"x": images[i].clone(), "y": labels[i]})
    for number, size in enumerate((1, 7, 256, 500)):
        with cw.Writer(tmp_path / str(number), shard_bytes=5000) as writer:
            for at in range(0, 500, size):
                writer.extend({"x": images[at : at + size], "y": labels[at : at + size]})
        assert files_of(tmp_path / str(number)) == files_of(tmp_path / "rows")


def test_the_way_memory_is_laid_out_does_not_matter(tmp_path: Path) -> None:
    image = torch.arange(3 * 10 * 12, dtype=torch.float32).reshape(3, 10, 12)
    forms = [
        image,
        image.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        torch.stack([image, image], -1)[..., 0],
        image.clone().requires_grad_(),
        torch.nn.Parameter(image.clone()),
        torch._neg_view(-image),
    ]
    stores = [files_of(write(tmp_path / str(i), [form] * 3)) for i, form in enumerate(forms)]
    assert all(store == stores[0] for store in stores)


class Stop(Exception):  # noqa: N818 - something that happens in the caller
    pass


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=600), st.integers(1, 3000), st.data())
def test_a_writer_that_is_stopped_and_goes_on_comes_to_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], shard_bytes: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("any")
    samples = [torch.arange(length, dtype=torch.int16) for length in lengths]
    whole = files_of(write(folder / "whole", samples, shard_bytes=shard_bytes, threads=1))
    for _ in range(data.draw(st.integers(0, 3))):
        with suppress(Stop), cw.Writer(folder / "s", mode="resume", shard_bytes=shard_bytes) as writer:
            end = data.draw(st.integers(writer.committed, len(samples)))
            writer.extend(samples[writer.committed : end])
            raise Stop
        assert len(cw.open(folder / "s")) == writer.committed
    with cw.Writer(folder / "s", mode="resume", shard_bytes=shard_bytes) as writer:
        writer.extend(samples[writer.committed :])
    assert files_of(folder / "s") == whole
