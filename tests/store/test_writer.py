"""cw.Writer: what it takes, what it refuses, and that a refused sample changes nothing."""

import threading
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.store.format import manifest as manifests
from cordwood.store.writing import first_samples
from tests.store.support.photos import files_of, photo, write
from tests.store.support.samples import assert_same_sample

Pair = namedtuple("Pair", ["image", "label"])


def assert_holds(path: Path, samples: list[Any]) -> None:
    dataset = cw.open(path)
    assert len(dataset) == len(samples)
    for number, sample in enumerate(samples):
        assert_same_sample(dataset[number], sample)


@pytest.mark.parametrize("count", [1, 255, 256, 257, 700])
def test_samples_come_back(count: int, tmp_path: Path) -> None:
    samples = [photo(i) for i in range(count)]
    with cw.Writer(tmp_path / "s", shard_bytes=20000) as writer:
        for number, sample in enumerate(samples):
            assert len(writer) == number
            writer.append(sample)
    assert len(writer) == writer.committed == count
    assert_holds(tmp_path / "s", samples)
    assert not list((tmp_path / "s").rglob("*.part"))


@pytest.mark.parametrize("goal", ["small", "balanced", "fast", "raw"])
def test_every_goal(goal: str, tmp_path: Path) -> None:
    samples = [photo(i) for i in range(20)]
    assert_holds(write(tmp_path / "s", samples, goal=goal), samples)


def test_the_caller_may_reuse_its_memory(tmp_path: Path) -> None:
    image, boxes, path = torch.zeros(3, 50, 50), np.zeros((2, 4)), ["a"]
    with cw.Writer(tmp_path / "s", shard_bytes=100_000) as writer:
        for number in range(300):
            image.fill_(number)
            boxes[:] = number
            path[0] = f"{number}.jpg"
            writer.append({"image": image, "more": [boxes, {"path": path}]})
    dataset = cw.open(tmp_path / "s")
    for number in (0, 1, 100, 255, 256, 299):
        sample = dataset[number]
        assert sample["image"].eq(number).all()
        assert (sample["more"][0] == number).all()
        assert sample["more"][1] == {"path": [f"{number}.jpg"]}


def test_a_sample_larger_than_a_chunk_and_than_a_shard(tmp_path: Path) -> None:
    samples = [torch.arange(n, dtype=torch.int64) for n in (5, 3 << 20, 7, 2 << 20, 1)]
    path = write(tmp_path / "s", samples, goal="raw", shard_bytes=1 << 20)
    assert_holds(path, samples)


BAD: list[tuple[Any, str]] = [
    ({"image": torch.zeros(3, 8, 8), "label": 1, "meta": {"path": "", "boxes": torch.zeros(0, 4)}}, "field 'image'"),
    ({**photo(1), "label": "cat"}, "field 'label': expected int"),
    ({**photo(1), "colour": 1}, "a key 'colour' that is not in the schema"),
    ({**photo(1), "label": object()}, "field 'label'"),
    (None, "a sample is None"),
    (7, "the sample: expected dict"),
]


@pytest.mark.parametrize("before", [256, 300])
@pytest.mark.parametrize(("bad", "said"), BAD, ids=[said for _, said in BAD])
def test_a_sample_that_does_not_fit_changes_nothing(before: int, bad: Any, said: str, tmp_path: Path) -> None:
    samples = [photo(i) for i in range(before + 50)]
    good = write(tmp_path / "good", samples, shard_bytes=30000)
    with cw.Writer(tmp_path / "s", shard_bytes=30000) as writer:
        for sample in samples[:before]:
            writer.append(sample)
        with pytest.raises(cw.UsageError, match=said):
            writer.append(bad)
        with pytest.raises(cw.UsageError, match=f"row 2 of 3: .*{said}.*; none of them was taken"):
            writer.extend([samples[0], samples[1], bad])
        assert len(writer) == before
        for sample in samples[before:]:
            writer.append(sample)
    assert files_of(tmp_path / "s") == files_of(good)


@pytest.mark.parametrize("bad", [object(), {"x": {1, 2}}, torch.zeros(2, 2).to_sparse(), None])
def test_what_can_never_be_stored_is_refused_at_once(bad: Any, tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s") as writer:
        with pytest.raises(cw.UsageError):
            writer.append(bad)
        writer.append({"x": 1})
        with pytest.raises(cw.UsageError, match="row 1 of 2"):
            writer.extend([{"x": 2}, bad])
        writer.append({"x": 3})
    assert_holds(tmp_path / "s", [{"x": 1}, {"x": 3}])


@pytest.mark.parametrize("rows", [3, 256, 300, 600])
@pytest.mark.parametrize("wrong", [0, -1])
def test_a_batch_is_taken_whole_or_not_at_all(rows: int, wrong: int, tmp_path: Path) -> None:
    samples = [{"x": torch.full((2,), float(i)), "y": i} for i in range(rows)]
    spoilt = [*samples]
    spoilt[wrong] = {"x": object()}
    with cw.Writer(tmp_path / "s", shard_bytes=4000) as writer:
        with pytest.raises(cw.UsageError, match=f"row {wrong % rows} of {rows}: field 'x'"):
            writer.extend(spoilt)
        assert len(writer) == 0
        writer.extend(samples)
        assert len(writer) == rows
    assert_holds(tmp_path / "s", samples)


def test_rounding_that_overflows_is_refused_also_among_the_first_samples(tmp_path: Path) -> None:
    fields = {"x": cw.Field(store_as="float16"), "later": cw.Field(store_as="bfloat16")}
    with cw.Writer(tmp_path / "s", fields=fields) as writer:
        with pytest.raises(cw.UsageError, match="field 'x' is stored as float16, which has no number"):
            writer.append({"x": torch.tensor([1e6])})
        for number in range(300):
            writer.append({"x": torch.tensor([0.1]), **({"later": torch.tensor([1e6])} if number == 9 else {})})
        with pytest.raises(cw.UsageError, match="no number as large"):
            writer.append({"x": torch.tensor([1e6])})
    dataset = cw.open(tmp_path / "s")
    assert len(dataset) == 300
    assert dataset[0]["x"].item() == torch.tensor(0.1).half().item()
    assert set(dataset[9]) == {"x", "later"}


def test_a_field_that_no_sample_has_is_an_error_when_the_first_samples_are_there(tmp_path: Path) -> None:
    with pytest.raises(cw.UsageError, match="fields names 'imgae', which is no field"):
        write(tmp_path / "s", [photo(1)], fields={"imgae": cw.Field(goal="raw")})
    with cw.Writer(tmp_path / "t", fields={"imgae": cw.Field(goal="raw")}) as writer:
        for number in range(255):
            writer.append(photo(number))
        for _ in range(2):
            with pytest.raises(cw.UsageError, match="fields names 'imgae'"):
                writer.append(photo(255))
            assert len(writer) == 255
        writer.append({**photo(255), "imgae": torch.zeros(3)})
    assert len(cw.open(tmp_path / "t")) == 256


def test_fields_are_recorded(tmp_path: Path) -> None:
    fields = {
        "image": cw.Field(goal="raw"),
        "label": cw.Field(classes=["cat", "dog"]),
        "meta.boxes": cw.Field(store_as="float16"),
        "note": cw.Field(varies=True),
    }
    path = write(tmp_path / "s", [{**photo(i), "label": i % 2} for i in range(20)], goal="small", fields=fields)
    manifest = manifests.read(path)
    entries = {entry.name: entry for entry in manifest.fields}
    assert [entries[name].goal for name in ("image", "label", "note")] == ["raw", "small", "small"]
    assert entries["label"].classes == ("cat", "dog")
    assert entries["meta.boxes"].store_as == "float16"
    assert manifest.schema is not None
    assert manifest.schema.leaf("note").node.kind == "any"
    assert (manifest.goal, manifest.shard_bytes) == ("small", 64 << 20)


def test_a_field_without_arrays_in_the_look_gets_a_plan_nevertheless(tmp_path: Path) -> None:
    samples: list[Any] = [{"x": None, "y": 1} for _ in range(first_samples.MAX_FIRST_SAMPLES)]
    fields = {"x": cw.Field(varies=True)}
    more = [{"x": torch.arange(1000), "y": 1}]
    path = write(tmp_path / "s", samples + more, fields=fields)
    assert_holds(path, samples + more)
    assert manifests.read(path).fields[0].plan is None


def test_extend_takes_batches_and_samples(tmp_path: Path) -> None:
    images, labels = torch.arange(24.0).reshape(4, 2, 3), torch.arange(4)
    expected = [{"x": images[i], "y": labels[i]} for i in range(4)]

    def generated() -> Iterator[Any]:
        yield from expected

    for number, batch in enumerate(({"x": images, "y": labels}, expected, generated(), iter(expected))):
        with cw.Writer(tmp_path / str(number)) as writer:
            writer.extend(batch)
        assert_holds(tmp_path / str(number), expected)
    with cw.Writer(tmp_path / "pairs") as writer:
        writer.extend(Pair(images, labels))
        writer.extend([])
        writer.extend([Pair(images[0], labels[0])])
    assert_holds(tmp_path / "pairs", [*(Pair(images[i], labels[i]) for i in range(4)), Pair(images[0], labels[0])])


def test_extend_from_a_loader(tmp_path: Path) -> None:
    samples = [{"x": torch.full((3,), float(i)), "y": i} for i in range(10)]
    with cw.Writer(tmp_path / "s") as writer:
        for batch in torch.utils.data.DataLoader(samples, batch_size=4):  # type: ignore[arg-type]
            writer.extend(batch)
    assert_holds(tmp_path / "s", [{"x": s["x"], "y": torch.tensor(s["y"])} for s in samples])


def test_an_iterable_that_goes_wrong_keeps_what_came_before(tmp_path: Path) -> None:
    def generated() -> Iterator[Any]:
        yield from ({"x": i} for i in range(5))
        yield {"x": object()}

    with cw.Writer(tmp_path / "s") as writer:
        with pytest.raises(cw.UsageError, match=r"sample 5 \(5 before it were taken\): field 'x'"):
            writer.extend(generated())
        with pytest.raises(ZeroDivisionError):
            writer.extend({"x": 1 // (i - 2)} for i in (3, 4, 2))
        assert len(writer) == 7
    assert_holds(tmp_path / "s", [{"x": x} for x in (0, 1, 2, 3, 4, 1, 0)])


@pytest.mark.parametrize("batch", ["abc", b"abc", 5, None, object()])
def test_what_extend_does_not_take(batch: Any, tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s") as writer:
        with pytest.raises(cw.UsageError, match="extend takes a batch or an iterable of samples"):
            writer.extend(batch)
        with pytest.raises(cw.UsageError, match=r"pass tuple\(batch\)"):
            writer.extend([torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"goal": "tiny"}, "goal must be .*, got 'tiny'"),
        ({"mode": "w"}, "mode must be 'create', "),
        ({"shard_bytes": 0}, "shard_bytes must be a number of bytes .*, got 0"),
        ({"shard_bytes": 1.5}, r"shard_bytes must be .*, got 1\.5"),
        ({"threads": 0}, "threads must be 1 or more, .*, got 0"),
        ({"fields": {"x": "raw"}}, "fields must map names .*, got 'x': 'raw'"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(cw.UsageError, match=said):
        cw.Writer(tmp_path / "s", **options)
    assert list(tmp_path.iterdir()) == []


def append_some(writer: cw.Writer, first: int) -> None:
    for number in range(300):
        writer.append({"x": first + number})


def test_threads_may_append_in_turns(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s", shard_bytes=3000) as writer:
        threads = [threading.Thread(target=append_some, args=(writer, 1000 * k)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [sample["x"] for sample in (cw.open(tmp_path / "s")[i] for i in range(1200))]
    assert sorted(found) == sorted(1000 * k + i for k in range(4) for i in range(300))
    assert all(sorted(part) == part for k in range(4) for part in [[x for x in found if x // 1000 == k]])


def test_a_generator_that_appends_itself(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s") as writer:

        def generated() -> Iterator[Any]:
            for number in range(3):
                writer.append({"x": -number})
                yield {"x": number}

        writer.extend(generated())
    assert [cw.open(tmp_path / "s")[i]["x"] for i in range(6)] == [0, 0, -1, 1, -2, 2]


def test_a_writer_that_nobody_closes_says_what_is_lost(tmp_path: Path) -> None:
    writer = cw.Writer(tmp_path / "s")
    writer.append({"x": 1})
    kept = [writer]
    del writer
    with pytest.warns(RuntimeWarning, match="was not closed, and 1 samples are lost"):
        kept.clear()
    with cw.Writer(tmp_path / "s", mode="resume") as again:
        assert again.committed == 0


def test_it_tells_its_state(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s") as writer:
        writer.append({"x": 1})
        assert repr(writer) == f"<cw.Writer {str(tmp_path / 's')!r}: 0 samples committed of 1>"
    assert repr(writer).endswith("1 samples committed of 1, it was closed>")
    writer.close()
    with pytest.raises(cw.UsageError, match=r"it was closed\. 1 samples are in the store; go on with"):
        writer.append({"x": 1})
    with pytest.raises(cw.UsageError, match="it was closed"), writer:
        pass
