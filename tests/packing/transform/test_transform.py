"""What a caller may give for a transform, and what it makes of samples."""

import functools
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch

from cordwood.errors import UsageError
from cordwood.packing.transform.batches import collate, cut
from cordwood.packing.transform.transform import prepare_transform

Pair = namedtuple("Pair", "image label")
SEED = 2**63 + 17


def doubled(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "x": sample["x"] * 2}


# ---- a function of one sample ----------------------------------------------------------------------------------------


def test_one_sample_of_one() -> None:
    assert prepare_transform(doubled).apply({"x": 3}, SEED) == [{"x": 6}]


def test_without_a_transform_a_sample_stays_as_it_is() -> None:
    transform = prepare_transform(None)
    sample = ["image", 3]
    assert transform.apply(sample, SEED)[0] is sample
    assert transform.apply(None, SEED) == []


@pytest.mark.parametrize(
    ("returned", "samples"),
    [
        (None, []),
        ([], []),
        ([1, 2], [1, 2]),
        ([1, None, 2], [1, 2]),
        ((1, 2), [(1, 2)]),
        ({"a": 1}, [{"a": 1}]),
        (map(str, range(3)), ["0", "1", "2"]),
        ("text", ["text"]),
    ],
)
def test_lists_and_iterators_are_several_samples_and_all_else_is_one(returned: Any, samples: list[Any]) -> None:
    assert prepare_transform(lambda sample: returned).apply("sample", SEED) == samples


def test_a_tensor_is_one_sample() -> None:
    (made,) = prepare_transform(lambda sample: torch.arange(3)).apply(0, SEED)
    assert torch.equal(made, torch.arange(3))


def test_a_generator_makes_several() -> None:
    def crops(sample: int) -> Iterator[int]:
        yield sample
        yield sample + 1

    assert prepare_transform(crops).apply(5, SEED) == [5, 6]


def test_an_error_is_the_functions_own() -> None:
    with pytest.raises(KeyError, match="x"):
        prepare_transform(doubled).apply({}, SEED)


def test_stopiteration_does_not_look_like_an_end() -> None:
    transform = prepare_transform(lambda sample: next(iter(())))
    with pytest.raises(RuntimeError, match="StopIteration"):
        transform.apply(0, SEED)

    def generator(sample: int) -> Iterator[int]:
        yield next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        prepare_transform(generator).apply(0, SEED)


# ---- seeds -----------------------------------------------------------------------------------------------------------


class Jitter(torch.nn.Module):
    def forward(self, sample: Any, generator: torch.Generator | None = None) -> torch.Tensor:
        return torch.rand(2, generator=generator)


def test_a_parameter_seed_gets_the_seed() -> None:
    assert prepare_transform(lambda sample, seed: seed).apply(0, SEED) == [SEED]
    assert prepare_transform(lambda sample, *, seed=1: seed).apply(0, SEED) == [SEED]


def test_a_seed_that_is_the_sample_or_is_filled_already_does_not() -> None:
    assert prepare_transform(lambda seed: seed).apply(3, SEED) == [3]

    def with_seed(sample: int, seed: int) -> int:
        return seed

    assert prepare_transform(functools.partial(with_seed, seed=4)).apply(3, SEED) == [4]


def test_a_parameter_generator_gets_one_that_is_set_by_the_seed() -> None:
    transform = prepare_transform(Jitter())
    first, again, other = (transform.apply(0, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(first, torch.rand(2, generator=torch.Generator().manual_seed(1)))


def test_a_function_without_a_signature_is_called_with_the_sample_alone() -> None:
    assert prepare_transform(int).apply("3", SEED) == [3]
    assert prepare_transform(torch.neg).apply(torch.tensor(3), SEED) == [torch.tensor(-3)]


# ---- functions of fields ---------------------------------------------------------------------------------------------


def test_a_function_of_a_field_changes_that_field_alone() -> None:
    sample = {"image": 3, "label": 1, "meta": {"size": 4}}
    assert prepare_transform({"image": lambda v: v + 1}).apply(sample, SEED) == [
        {"image": 4, "label": 1, "meta": {"size": 4}}
    ]
    assert prepare_transform({"image": str, "meta.size": str}).apply(sample, SEED) == [
        {"image": "3", "label": 1, "meta": {"size": "4"}}
    ]
    assert sample == {"image": 3, "label": 1, "meta": {"size": 4}}  # a dataset may give the same object again


def test_fields_of_tuples_and_named_tuples_have_numbers_and_names() -> None:
    assert prepare_transform({"0": str}).apply((3, {"a": 1}), SEED) == [("3", {"a": 1})]
    assert prepare_transform({"1.a": str}).apply((3, {"a": 1}), SEED) == [(3, {"a": "1"})]
    (pair,) = prepare_transform({"label": str}).apply(Pair(1, 2), SEED)
    assert pair == Pair(1, "2")
    assert isinstance(pair, Pair)
    (ordered,) = prepare_transform({"a": str}).apply(OrderedDict(a=1), SEED)
    assert ordered == OrderedDict(a="1")
    assert isinstance(ordered, OrderedDict)


def test_a_key_with_a_dot_is_found() -> None:
    assert prepare_transform({"a.b": str}).apply({"a.b": 1}, SEED) == [{"a.b": "1"}]


def test_none_is_a_value_of_a_field() -> None:
    assert prepare_transform({"image": lambda v: None}).apply({"image": 3}, SEED) == [{"image": None}]


@pytest.mark.parametrize(
    ("name", "sample", "told"),
    [
        ("img", {"image": 1, "label": 2}, "'img'.*'image', 'label'"),
        ("meta.b", {"meta": {"a": 1}}, r"'meta\.b'.*'a'"),
        ("2", (1, 2), "'2'.*'0', '1'"),
        ("image", 5, "'image'.*no fields: it is 5"),
    ],
)
def test_a_missing_field_is_named_with_those_that_are_there(name: str, sample: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        prepare_transform({name: str}).apply(sample, SEED)


def test_a_function_of_a_field_gets_seeds_too() -> None:
    assert prepare_transform({"a": lambda v, seed: seed}).apply({"a": 1}, SEED) == [{"a": SEED}]


# ---- batches ---------------------------------------------------------------------------------------------------------


def test_a_batched_function_takes_and_returns_a_batch() -> None:
    seen = []

    def normalised(batch: dict[str, Any]) -> dict[str, Any]:
        seen.append(batch)
        return {"image": batch["image"] / 2, "label": batch["label"], "path": batch["path"]}

    samples = [{"image": torch.full((2,), float(n)), "label": n, "path": f"{n}.jpg"} for n in range(3)]
    made = prepare_transform(normalised, batched=True).apply_batch(samples, SEED)
    assert seen[0]["image"].shape == (3, 2)
    assert torch.equal(seen[0]["label"], torch.arange(3))
    assert seen[0]["path"] == ["0.jpg", "1.jpg", "2.jpg"]
    assert [len(of_input) for of_input in made] == [1, 1, 1]
    assert torch.equal(made[2][0]["image"], torch.ones(2))
    assert made[1][0]["path"] == "1.jpg"


@pytest.mark.parametrize(
    ("rows", "samples"),
    [
        ([], [[], [], []]),
        ([7], [[7], [], []]),
        ([7, 8], [[7], [8], []]),
        ([7, 8, 9], [[7], [8], [9]]),
        ([7, 8, 9, 10, 11], [[7], [8], [9, 10, 11]]),
        ([None, 8], [[], [8], []]),
        ([[7, 8], 9], [[7, 8], [9], []]),
        ([7, 8, None, [9, 10], None, 11], [[7], [8], [9, 10, 11]]),
    ],
)
def test_fewer_rows_count_for_the_first_inputs_and_more_for_the_last_one(rows: Any, samples: list[Any]) -> None:
    transform = prepare_transform(lambda batch: rows, batched=True)
    assert transform.apply_batch([1, 2, 3], SEED) == samples


def test_rows_of_a_tensor_that_has_fewer_or_more() -> None:
    inputs = [torch.tensor(n) for n in (1, 0, 2)]
    assert prepare_transform(lambda batch: batch[batch > 0], batched=True).apply_batch(inputs, SEED) == [[1], [2], []]
    more = prepare_transform(lambda batch: batch.repeat(2), batched=True)
    assert more.apply_batch(inputs, SEED) == [[1], [0], [2, 1, 0, 2]]


def test_a_list_of_samples_may_come_back_and_none_in_it_drops_one() -> None:
    transform = prepare_transform(lambda batch: [None, "b", ["c", "d"]], batched=True)
    assert transform.apply_batch([1, 2, 3], SEED) == [[], ["b"], ["c", "d"]]
    assert prepare_transform(lambda batch: None, batched=True).apply_batch([1, 2], SEED) == [[], []]
    assert prepare_transform(lambda batch: (str(x) for x in batch), batched=True).apply_batch(["a", "b"], SEED) == [
        ["a"],
        ["b"],
    ]


def test_inputs_that_are_none_are_left_out_of_the_batch() -> None:
    transform = prepare_transform(lambda batch: batch, batched=True)
    assert transform.apply_batch(["a", None, "b"], SEED) == [["a"], [], ["b"]]
    assert transform.apply_batch([None], SEED) == [[]]
    three = prepare_transform(lambda batch: [1, 2, 3], batched=True)
    assert three.apply_batch(["a", "b", None], SEED) == [[1], [2, 3], []]
    assert three.apply_batch([None, "a", None, "b"], SEED) == [[], [1], [], [2, 3]]


def test_a_function_of_a_field_of_a_batch() -> None:
    transform = prepare_transform({"image": lambda images: images * 2}, batched=True)
    made = transform.apply_batch([{"image": torch.tensor(n), "path": str(n)} for n in range(2)], SEED)
    assert made == [[{"image": torch.tensor(0), "path": "0"}], [{"image": torch.tensor(2), "path": "1"}]]


def test_a_column_list_is_cut_by_rows_however_long_its_items_are() -> None:
    # Two rows with a list of two tensors: by their lengths alone nobody could tell which way to cut.
    boxes = [torch.zeros(2, 4), torch.ones(2, 3)]
    assert cut({"image": torch.zeros(2, 3), "boxes": boxes})[1]["boxes"] is boxes[1]


@pytest.mark.parametrize(
    ("values", "batch"),
    [
        ([1, 2], torch.tensor([1, 2])),
        ([1.5, 2.5], torch.tensor([1.5, 2.5], dtype=torch.float64)),
        ([True, False], torch.tensor([True, False])),
        ([1j, 2j], torch.tensor([1j, 2j], dtype=torch.complex128)),
        ([1, 2.5], [1, 2.5]),
        ([1, True], [1, True]),
        ([1 << 70, 1], [1 << 70, 1]),
        (["a", "b"], ["a", "b"]),
        ([None, 1], [None, 1]),
        ([[1], [2]], [[1], [2]]),
        ([np.float32(1), np.float32(2)], torch.tensor([1.0, 2.0])),
        ([np.array("a"), np.array("b")], [np.array("a"), np.array("b")]),
        ([b"a", b"b"], [b"a", b"b"]),
    ],
)
def test_numbers_become_tensors_and_all_else_lists(values: list[Any], batch: Any) -> None:
    made = collate([{"x": value} for value in values])["x"]
    assert type(made) is type(batch)
    if isinstance(batch, torch.Tensor):
        assert made.dtype == batch.dtype
        assert torch.equal(made, batch)
    else:
        assert made == batch


def test_arrays_are_stacked_where_shapes_and_types_agree() -> None:
    assert torch.equal(collate([np.zeros(2), np.ones(2)]), torch.tensor([[0.0, 0], [1, 1]], dtype=torch.float64))
    ragged = [torch.zeros(2), torch.zeros(3)]
    assert all(a is b for a, b in zip(collate(ragged), ragged, strict=True))
    mixed = [torch.zeros(2), torch.zeros(2, dtype=torch.int64)]
    assert isinstance(collate(mixed), list)
    assert isinstance(collate([np.zeros(2), np.zeros(3)]), list)


def test_structure_survives_collating_and_cutting() -> None:
    samples = [(Pair(n, str(n)), {"a": {"b": float(n)}}, OrderedDict(c=n)) for n in range(3)]
    back = cut(collate(samples))
    assert [(int(pair.image), pair.label, float(d["a"]["b"]), int(o["c"])) for pair, d, o in back] == [
        (n, str(n), float(n), n) for n in range(3)
    ]
    assert isinstance(back[0][0], Pair)
    assert isinstance(back[0][2], OrderedDict)


def test_samples_that_are_not_alike_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"sample 1 .*'b'.*'a'"):
        collate([{"a": 1}, {"b": 1}])
    with pytest.raises(UsageError, match=r"sample 2 .*tuple of 2"):
        collate([(1, 2), (1, 2), (1,)])
    with pytest.raises(UsageError, match="sample 1"):
        collate([{"a": 1}, 5])


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ({"a": torch.zeros(2), "b": torch.zeros(3)}, "'b' .*3 rows.*2 rows"),
        ({"a": torch.zeros(2), "b": "constant"}, "'b' .*'constant'"),
        ({"a": torch.zeros(2), "b": torch.tensor(1)}, "'b' .*no dimension"),
        ({"a": {"b": [1], "c": [1, 2]}}, r"'a\.c' .*2 rows"),
        (torch.tensor(1.0), "no rows"),
        ("text", "no rows"),
        ({}, "no rows"),
        ([torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)], "columns of a batch"),
    ],
)
def test_what_is_no_batch_is_refused(batch: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        cut(batch)


# ---- names, refusals, pickling ---------------------------------------------------------------------------------------


def test_a_transform_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named_transforms.py").write_text(
        "class Group:\n    @staticmethod\n    def half(v): return v / 2\ndef prepare(v): return v + 1\nNUMBER = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    assert prepare_transform("named_transforms:prepare").apply(1, SEED) == [2]
    assert prepare_transform({"a": "named_transforms:Group.half"}).apply({"a": 4}, SEED) == [{"a": 2}]
    for text, told in (
        ("named_transforms:prepair", "no 'prepair'; did you mean 'prepare'"),
        ("named_transforms:zzz", "has no 'zzz': it has Group, prepare"),
        ("named_transforms:NUMBER", "transform is 3"),
        ("named_transforms.py:prepare", "finds no 'named_transforms.py'"),
        ("./named_transforms.py", "named_transforms:NAME"),
        ("prepare", "takes module:name"),
        ("no_such_module:f", "finds no 'no_such_module'"),
        ("named_transforms.sub:f", "named_transforms.sub"),
    ):
        with pytest.raises(UsageError, match=told):
            prepare_transform(text)


def test_a_module_that_fails_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_import.py").write_text("import os\nimport no_such_thing_at_all\n")
    (tmp_path / "failing_line.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "failing_syntax.py").write_text("x = 1\ny = (\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, told in (
        ("failing_import", "line 2: ModuleNotFoundError.*no_such_thing_at_all"),
        ("failing_line", "failing_line.py, line 2: ZeroDivisionError"),
        ("failing_syntax", "failing_syntax.py, line 2: SyntaxError"),
    ):
        with pytest.raises(UsageError, match=told):
            prepare_transform(f"{name}:f")


@pytest.mark.parametrize(
    ("transform", "batched", "told"),
    [
        (3, False, "transform is 3"),
        ({}, False, "empty dict"),
        ({"a": 3}, False, "'a' is 3"),
        ({1: str}, False, "1 for the name"),
        (None, True, "no transform"),
    ],
)
def test_what_is_no_transform_is_refused(transform: Any, batched: bool, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        prepare_transform(transform, batched=batched)


def test_closures_and_lambdas_survive_cloudpickle() -> None:
    factor = 3
    transform = prepare_transform({"x": lambda v, seed: v * factor + seed})
    again = cloudpickle.loads(cloudpickle.dumps(transform))
    assert again.apply({"x": 2}, 1) == [{"x": 7}]
    assert again.identity == transform.identity
