"""Small arrays of one shape lie in columns: in every order of shapes samples and batches are as they always were."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cordwood as cw
from cordwood.errors import UsageError

USUAL: list[dict[str, Any]] = [{"x": torch.arange(8.0) * number, "n": number} for number in range(40)]


def vector(number: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(number))


def write(path: Path, samples: Sequence[Any], **options: Any) -> cw.Dataset:
    with cw.Writer(path, "raw", **options) as writer:
        writer.extend(list(samples))
    found = cw.verify(path)
    assert found.ok, str(found)
    return cw.open(path)


def shapes_of(path: Path) -> list[Any]:
    """The shapes of columns that the schema tells."""
    return [item.get("shape") for item in json.loads((path / "store.json").read_text())["body"]["schema"]["items"]]


def files_of(path: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file() and one.name != ".lock"
    }


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, torch.Tensor):
        return found.dtype == expected.dtype and torch.equal(found, expected)
    if isinstance(expected, np.ndarray):
        return type(found) is np.ndarray and found.dtype == expected.dtype and np.array_equal(found, expected)
    if isinstance(expected, list | tuple):
        return type(found) is type(expected) and len(found) == len(expected) and all(map(same, found, expected))
    return type(found) is type(expected) and bool(found == expected)


def batched(values: Sequence[torch.Tensor | None]) -> Any:
    """What a batch has of these: one tensor if that can be, None if all samples have None."""
    if all(value is None for value in values):
        return None
    if all(value is not None for value in values) and len({value.shape for value in values if value is not None}) == 1:
        return torch.stack(list(values))  # type: ignore[arg-type]
    return list(values)


SHAPES = st.sampled_from([(8,), (8,), (8,), (9,), (2, 4), (0,), (8, 1), (300,), ()])
# Of the samples behind the first ones, and of odd ones among the first: 240 have the usual shape.
ORDERS = st.tuples(st.lists(SHAPES, max_size=12), st.lists(SHAPES | st.none(), max_size=30))


@settings(max_examples=25, deadline=None)
@given(ORDERS, st.integers(0, 240), st.sampled_from(["tensor", "ndarray"]), st.integers(1, 7))
def test_any_order_of_shapes_comes_back(orders: Any, at: int, kind: str, per: int) -> None:
    odd, later = orders
    usual = [(8,)] * 240
    shapes = [*usual[:at], *odd, *usual[at:], *[(8,)] * (16 - len(odd)), *later]
    arrays = [None if shape is None else vector(number, *shape) for number, shape in enumerate(shapes)]
    given_as = [array.numpy() if kind == "ndarray" and array is not None else array for array in arrays]
    samples = [{"x": array, "n": number} for number, array in enumerate(given_as)]
    with TemporaryDirectory() as folder:
        ds = write(Path(folder) / "s", samples, shard_bytes=4000, fields={"x": cw.Field(optional=True)})
        assert shapes_of(Path(folder) / "s") == [[8], None]
        assert all(same(ds[number], sample) for number, sample in enumerate(samples))
        numbers = [*range(len(samples) - 1, -1, -3), *range(max(at - 2, 0), min(at + len(odd) + 2, len(samples)))]
        for start in range(0, len(numbers), per):
            some = numbers[start : start + per]
            batch = ds[some]
            assert same(batch["x"], batched([arrays[number] for number in some])), some
            assert batch["n"].tolist() == some


def test_odd_shapes_first_keep_frames(tmp_path: Path) -> None:
    samples = [{"x": vector(number, 8 if number >= 14 else 9)} for number in range(256)]
    assert all(map(same, write(tmp_path / "s", samples), samples))
    assert shapes_of(tmp_path / "s") == [None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.uint8, torch.complex64])
def test_tensors_have_memory_of_their_own(dtype: torch.dtype, tmp_path: Path) -> None:
    samples = [{"x": (vector(number, 2, 16) * 3).to(dtype)} for number in range(30)] + [
        {"x": torch.zeros(7, dtype=dtype)}
    ]
    ds = write(tmp_path / "s", samples)
    assert shapes_of(tmp_path / "s") == [[2, 16]]
    one, other = ds.__getitems__([3, 4])
    assert same([one["x"], other["x"]], [samples[3]["x"], samples[4]["x"]])
    one["x"].zero_()
    assert same([ds[3]["x"], other["x"]], [samples[3]["x"], samples[4]["x"]])
    assert one["x"].untyped_storage().nbytes() == one["x"].nbytes
    batch = ds[[5, 6, 7]]["x"]
    assert same(batch, torch.stack([sample["x"] for sample in samples[5:8]]))
    assert batch.untyped_storage().nbytes() == batch.nbytes
    assert same(ds[[5, 30]]["x"], [samples[5]["x"], samples[30]["x"]])


def test_a_column_of_arrays_is_one_tensor(tmp_path: Path) -> None:
    ds = write(tmp_path / "s", USUAL)
    assert same(ds.column("x"), torch.stack([sample["x"] for sample in USUAL]))
    assert same(ds.select("x")[3], (USUAL[3]["x"],))
    with cw.Writer(tmp_path / "s", mode="append") as writer:
        writer.append({"x": torch.zeros(3), "n": 1})
    with pytest.raises(UsageError, match="field 'x' has another shape or is missing in some samples"):
        cw.open(tmp_path / "s").column("x")


def test_labels_of_a_column_are_checked(tmp_path: Path) -> None:
    fields = {"x": cw.Field(classes=["cat", "dog", "cow"])}
    with cw.Writer(tmp_path / "s", "raw", fields=fields) as writer:
        for number in range(30):
            writer.append({"x": torch.full((4,), number % 3)})
        for bad in (torch.tensor([0, 1, 2, 3]), torch.tensor([0, -1])):
            with pytest.raises(UsageError, match="field 'x': the label"):
                writer.append({"x": bad})
        writer.append({"x": torch.tensor([2, 1])})
    assert shapes_of(tmp_path / "s") == [[4]]
    assert cw.open(tmp_path / "s").inspect().fields[0].classes == [("cat", 40), ("dog", 41), ("cow", 41)]


def test_inspect_tells_sizes_and_values_of_all(tmp_path: Path) -> None:
    samples = [*USUAL, {"x": torch.tensor([-5.0] * 10), "n": 0}]
    write(tmp_path / "s", samples)
    row = cw.open(tmp_path / "s").inspect().fields[0]
    assert (row.before, row.present, row.smallest, row.largest) == (40 * 32 + 40, 41, (8,), (10,))
    assert row.after > 41 * 32
    assert row.values is not None
    assert (row.values.smallest, row.values.largest) == (-5, 7 * 39)
    assert "[8..10]" in str(cw.inspect(tmp_path / "s"))


def damaged_frame(path: Path) -> Path:
    """Flip a bit of the frame of the last sample, the first byte of which is behind the header of its shard."""
    (shard,) = path.glob("shard-*.cws")
    data = bytearray(shard.read_bytes())
    data[32 + 60] ^= 1
    shard.write_bytes(data)
    return path


def test_a_damaged_frame_apart_costs_its_sample(tmp_path: Path) -> None:
    samples = [*USUAL, {"x": vector(3, 100), "n": 40}]
    write(tmp_path / "s", samples)
    path = damaged_frame(tmp_path / "s")
    found = cw.verify(path)
    assert (found.ok, found.lost) == (False, [(40, 40)])
    ds = cw.open(path)
    assert same(ds[39], samples[39])
    for numbers in ([40], [3, 40]):
        with pytest.raises(cw.FormatError, match=r"sample 40 .*field 'x'"):
            ds[numbers]
    with pytest.raises(cw.FormatError, match=r"sample 40 .*field 'x'"):
        ds[40]
    assert ds.select("n")[40] == (40,)
    result = cw.salvage(path, tmp_path / "saved")
    assert result.kept == 40
    assert cw.verify(tmp_path / "saved").ok
    assert all(map(same, cw.open(tmp_path / "saved"), samples[:40]))


def test_salvage_keeps_frames_that_lie_apart(tmp_path: Path) -> None:
    samples = [*USUAL, {"x": vector(3, 100), "n": 40}, {"x": vector(4, 5), "n": 41}]
    write(tmp_path / "s", samples)
    cw.salvage(damaged_frame(tmp_path / "s"), tmp_path / "saved")
    assert cw.verify(tmp_path / "saved").ok
    assert all(map(same, cw.open(tmp_path / "saved"), [*samples[:40], samples[41]]))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stopped_writer_goes_on_to_the_same_bytes(threads: int, tmp_path: Path) -> None:
    samples = [{"x": vector(number, 8 if number % 50 else 9), "n": number} for number in range(6000)]
    options: dict[str, Any] = {"shard_bytes": 9000, "threads": threads}
    write(tmp_path / "whole", samples, **options)
    with suppress(KeyError), cw.Writer(tmp_path / "s", "raw", **options) as writer:
        for sample in samples[:5500]:
            writer.append(sample)
        raise KeyError
    with cw.Writer(tmp_path / "s", "raw", mode="resume", **options) as writer:
        assert 0 < writer.committed < 5500
        writer.extend(samples[writer.committed :])
    assert files_of(tmp_path / "s") == files_of(tmp_path / "whole")


def test_merged_stores(tmp_path: Path) -> None:
    samples: list[dict[str, Any]] = [
        {"x": vector(number, 8 if number % 30 else 9), "n": number} for number in range(600)
    ]
    write(tmp_path / "a", samples[:300])
    write(tmp_path / "b", samples[300:])
    cw.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert cw.verify(tmp_path / "c").ok
    for ds in (cw.open(tmp_path / "c"), cw.concat([cw.open(tmp_path / "a"), cw.open(tmp_path / "b")])):
        assert all(map(same, ds, samples))
        assert same(ds[[299, 301]]["x"], torch.stack([samples[299]["x"], samples[301]["x"]]))


# ---- batches that are written -------------------------------------------------------------------------------------

COUNT = 700
PARTS: dict[str, Any] = {
    "tensor": torch.arange(COUNT * 8.0).reshape(COUNT, 8),
    "ndarray": np.arange(COUNT * 6).reshape(COUNT, 2, 3) % 251,
    "bfloat16": torch.arange(COUNT * 16.0).reshape(COUNT, 16).to(torch.bfloat16),
    "strided": torch.arange(COUNT * 16).reshape(8, 2 * COUNT).t()[::2],
    "number": torch.arange(COUNT),
    "scalar": np.arange(COUNT, dtype=np.float32),
    "int": list(range(COUNT)),
    "float": [number / 2 for number in range(COUNT)],
    "bool": [number % 3 == 0 for number in range(COUNT)],
    "complex": [complex(number, 1) for number in range(COUNT)],
}


def cut(part: Any, start: int, end: int) -> Any:
    if isinstance(part, dict):
        return {name: cut(item, start, end) for name, item in part.items()}
    return tuple(cut(item, start, end) for item in part) if isinstance(part, tuple) else part[start:end]


def row_of(part: Any, number: int) -> Any:
    if isinstance(part, dict):
        return {name: row_of(item, number) for name, item in part.items()}
    return tuple(row_of(item, number) for item in part) if isinstance(part, tuple) else part[number]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=6, unique=True).filter(
        lambda names: {*names} & {"tensor", "number", "scalar"}
    ),
    st.lists(st.integers(1, 400), min_size=1, max_size=6),
    st.sampled_from(
        [
            lambda parts: parts,
            lambda parts: tuple(parts.values()),
            lambda parts: {"a": parts, "b": {"c": torch.arange(COUNT)}},
        ]
    ),
)
def test_batches_have_the_bytes_of_their_rows(names: list[str], sizes: list[int], nested: Any) -> None:
    batch = nested({name: PARTS[name] for name in names})
    with TemporaryDirectory() as folder:
        with cw.Writer(Path(folder) / "rows", "raw", shard_bytes=7000) as writer:
            for number in range(COUNT):
                writer.append(row_of(batch, number))
        with cw.Writer(Path(folder) / "batches", "raw", shard_bytes=7000) as writer:
            done = 0
            for size in [*sizes, COUNT]:
                writer.extend(cut(batch, done, done + size)) if done < COUNT else None
                done += size
        assert files_of(Path(folder) / "rows") == files_of(Path(folder) / "batches")
        assert cw.verify(Path(folder) / "batches").ok


def changed(**parts: Any) -> dict[str, Any]:
    return {"x": torch.ones(20, 8), "y": torch.arange(20), **parts}


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (changed(x=torch.ones(20, 8, dtype=torch.float64)), r"row 0 of 20: field 'x': expected tensor of float32, but"),
        (changed(x=np.ones((20, 8), np.float32)), r"row 0 of 20: field 'x': expected tensor of float32, but"),
        (changed(y=torch.ones(20, 2, dtype=torch.int64)), r"row 0 of 20: field 'y': expected 0-d tensor of int64"),
        (changed(y=torch.arange(20) - 3), r"row 0 of 20: field 'y': the label -3 came"),
        (changed(y=torch.arange(20) + 15), r"row 15 of 20: field 'y': the label 30 came"),
        (changed(z=torch.arange(20)), r"row 0 of 20: the sample has a key 'z' that is not in the schema"),
        ({"x": torch.ones(20, 8)}, r"row 0 of 20: field 'y' is missing"),
        (changed(y=torch.arange(19)), r"part 'y' of the batch has shape \(19,\), but other parts have 20 rows"),
        (changed(y=list(range(20))), r"row 0 of 20: field 'y': expected 0-d tensor of int64, but"),
    ],
)
def test_refused_batches_name_field_and_row(batch: Any, message: str, tmp_path: Path) -> None:
    fields = {"y": cw.Field(classes=[str(number) for number in range(30)])}
    with cw.Writer(tmp_path / "s", "raw", fields=fields) as writer:
        for start in range(0, 300, 20):
            writer.extend(changed(y=torch.arange(20) + start % 10))
        with pytest.raises(UsageError, match=message):
            writer.extend(batch)
        assert len(writer) == 300
        writer.extend(changed())
    assert shapes_of(tmp_path / "s") == [[8], None]
    assert len(cw.open(tmp_path / "s")) == 320


def test_batches_of_another_shape_lie_apart(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s", "raw") as writer:
        writer.extend({"x": torch.arange(2400.0).reshape(300, 8)})
        writer.extend({"x": torch.arange(90.0).reshape(10, 9)})
        writer.extend({"x": torch.arange(80.0).reshape(10, 8)})
    ds = cw.open(tmp_path / "s")
    assert same(ds[list(range(300, 310))]["x"], torch.arange(90.0).reshape(10, 9))
    assert same(ds[list(range(310, 320))]["x"], torch.arange(80.0).reshape(10, 8))
    assert cw.verify(tmp_path / "s").ok
