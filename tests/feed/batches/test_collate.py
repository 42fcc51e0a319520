"""What the option `collate` of a loader means."""

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import UsageError
from cordwood.feed.batches.collate import CollateRule, Collation
from cordwood.feed.batches.padding import Padded

NAMES = ("tokens", "boxes", "label")
RAGGED = [torch.tensor([1, 2, 3]), None, torch.tensor([4])]


def test_without_options_values_stay_what_they_are() -> None:
    collation = Collation(None, NAMES)
    tensor, texts = torch.ones(2, 3), ["a", "b"]
    assert collation.field("tokens", tensor) is tensor
    assert collation.field("label", texts) is texts
    assert collation.field("label", [1, None]) == [1, None]
    assert collation.field("boxes", None) is None


def test_pad_is_a_tensor_and_lengths_also_where_all_are_equal() -> None:
    collation = Collation({"tokens": "pad", "boxes": ("pad", -100)}, NAMES)
    assert collation.rules == {"tokens": CollateRule("pad", 0), "boxes": CollateRule("pad", -100)}
    ragged, filled = collation.field("tokens", RAGGED), collation.field("boxes", RAGGED)
    assert isinstance(ragged, Padded)
    assert ragged.values.tolist() == [[1, 2, 3], [0, 0, 0], [4, 0, 0]]
    assert filled.values.tolist() == [[1, 2, 3], [-100] * 3, [4, -100, -100]]
    assert ragged.lengths.tolist() == filled.lengths.tolist() == [3, 0, 1]
    even = collation.field("tokens", torch.ones(2, 4))
    assert isinstance(even, Padded)
    assert even.lengths.tolist() == [4, 4]


def test_list_is_a_list_also_where_all_are_equal() -> None:
    collation = Collation({"tokens": "list"}, NAMES)
    assert collation.field("tokens", RAGGED) == RAGGED
    given = torch.arange(4).reshape(2, 2)
    found = collation.field("tokens", given)
    assert isinstance(found, list)
    assert [row.tolist() for row in found] == [[0, 1], [2, 3]]
    assert found[1].untyped_storage().data_ptr() == given.untyped_storage().data_ptr()
    assert [type(one) for one in collation.field("tokens", [np.ones(1), None])] == [torch.Tensor, type(None)]


def test_a_field_whose_shapes_differ_is_told_of_once() -> None:
    collation = Collation({"boxes": "list"}, NAMES)
    told = (
        r"field 'tokens' differs in shape within a batch \(\(3,\) and \(1,\)\).*as a list; .*collate={'tokens': 'pad'}"
        r".*collate={'tokens': 'list'}"
    )
    with pytest.warns(UserWarning, match=told):
        assert collation.field("tokens", RAGGED) is RAGGED
    collation.field("tokens", RAGGED)  # warnings are errors
    collation.field("boxes", RAGGED)
    with pytest.warns(UserWarning, match="field 'label'"):
        collation.field("label", RAGGED)
    with pytest.warns(UserWarning, match="field 'tokens'"):
        Collation(None, NAMES).field("tokens", RAGGED)


def test_none_among_equal_shapes_is_nothing_to_tell_of() -> None:
    collation = Collation(None, NAMES)
    collation.field("tokens", [torch.ones(2), None, torch.zeros(2)])
    collation.field("tokens", [None, None])
    collation.field("tokens", ["a", {"b": torch.ones(2)}])


@pytest.mark.parametrize(
    "asked", ["pads", "Pad", 3, None, ("pad",), ("pad", "x"), ("list", 1), ["pad", 1], torch.ones(2)]
)
def test_an_unknown_word_is_refused(asked: Any) -> None:
    with pytest.raises(
        UsageError, match=r"collate of field 'tokens' is .*, but it can be 'pad', \('pad', a number\) or"
    ):
        Collation({"tokens": asked}, NAMES)


def test_an_unknown_field_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="collate names 'token', but the fields are 'tokens', 'boxes', 'label'"):
        Collation({"token": "pad"}, NAMES)
    with pytest.raises(UsageError, match="by names of fields, not by 3"):
        Collation({3: "pad"}, NAMES)  # type: ignore[dict-item]


def test_what_is_no_option_is_refused() -> None:
    with pytest.raises(UsageError, match="collate takes a dict or a function, not 'pad'"):
        Collation("pad", NAMES)  # type: ignore[arg-type]


# ---- whole samples ---------------------------------------------------------------------------------------------------


def test_rules_apply_wherever_the_field_is() -> None:
    samples = [{"meta": {"tokens": [1] * n}, "label": n, "b": torch.zeros(n)} for n in (1, 3)]
    collation = Collation({"meta.tokens": ("pad", -1), "b": "list"}, None)
    batch = collation.samples(samples)
    assert batch["meta"]["tokens"].values.tolist() == [[1, -1, -1], [1, 1, 1]]
    assert batch["label"].tolist() == [1, 3]
    assert [len(one) for one in batch["b"]] == [1, 3]


def test_items_of_a_selection_have_the_names_of_their_fields() -> None:
    collation = Collation({"tokens": "pad"}, ("label", "tokens"), selected=("label", "tokens"))
    labels, tokens = collation.samples([(3, torch.ones(1)), (4, torch.ones(2))])
    assert labels.tolist() == [3, 4]
    assert tokens.lengths.tolist() == [1, 2]


def test_items_of_a_tuple_have_their_places_for_names() -> None:
    collation = Collation({"1": "pad"}, None, selected=("label", "tokens", "more"))
    _, tokens = collation.samples([(3, torch.ones(1)), (4, torch.ones(2))])
    assert tokens.lengths.tolist() == [1, 2]


@pytest.mark.parametrize("sample", [torch.ones(2), np.ones(2), [1.0, 1.0]])
def test_a_sample_that_is_one_value_is_called_value(sample: Any) -> None:
    found = Collation({"value": "pad"}, None).samples([sample, sample[:1]])
    assert found.values.tolist() == [[1.0, 1.0], [1.0, 0.0]]


def test_a_key_called_value_is_not_the_sample() -> None:
    found = Collation({"value": "pad"}, None).samples([{"value": [1]}, {"value": [1, 2]}])
    assert found["value"].lengths.tolist() == [1, 2]


def test_a_field_that_a_batch_lacks_altogether_keeps_its_form() -> None:
    samples: list[Any] = [{"a": None, "b": None, "c": None}, {"a": None, "b": None}]
    batch = Collation({"a": "pad", "b": "list"}, None).samples(samples)
    assert batch["a"].values.shape == (2, 0)
    assert batch["b"] == [None, None]
    assert batch["c"] is None


def test_ragged_samples_are_told_of_once() -> None:
    samples = [{"x": torch.ones(1), "n": [1]}, {"x": torch.ones(2), "n": [1, 2]}]
    collation = Collation(None, None)
    with pytest.warns(UserWarning, match="differs in shape") as told:
        batch = collation.samples(samples)
    assert [str(one.message).partition(")")[0] for one in told] == [
        "field 'x' differs in shape within a batch ((1,",
        "field 'n' differs in shape within a batch (length 1 and length 2",
    ]
    assert batch["n"] == [[1], [1, 2]]
    collation.samples(samples)


def test_a_rule_for_a_field_that_the_first_batch_lacks_is_told_of() -> None:
    collation = Collation({"ids": "pad"}, None)
    with pytest.warns(UserWarning, match="collate names 'ids', but the fields are 'x' in the first batch"):
        collation.samples([{"x": 1}])
    assert collation.samples([{"ids": [1]}, {"ids": [1, 2]}])["ids"].lengths.tolist() == [1, 2]


def test_fields_of_the_dataset_may_be_missing_in_the_first_batch() -> None:
    collation = Collation({"tokens": "pad", "ids": "list"}, NAMES, transformed=True)
    assert collation.samples([{"ids": [1]}]) == {"ids": [[1]]}  # warnings are errors
    with pytest.warns(UserWarning, match="collate names 'ids', but the fields are 'tokens' in the first batch"):
        Collation({"tokens": "pad", "ids": "list"}, NAMES, transformed=True).samples([{"tokens": [1]}])


def test_a_callers_function_gets_the_list_of_samples() -> None:
    asked = []

    def mine(samples: list[Any]) -> str:
        asked.append(samples)
        return "a batch"

    collation = Collation(mine, NAMES)
    assert collation.function is mine
    assert collation.samples([1, "x"]) == "a batch"
    assert asked == [[1, "x"]]


def test_it_survives_pickling() -> None:
    collation = pickle.loads(pickle.dumps(Collation({"a": ("pad", 2)}, ("a",), selected=("a",))))
    (found,) = collation.samples([([1],), ([1, 2],)])
    assert found.values.tolist() == [[1, 2], [1, 2]]


def test_quietly_says_nothing_itself() -> None:
    collation = Collation(None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, remarks = collation.quietly([torch.ones(1), torch.ones(2)])
    assert [about for about, _ in remarks] == ["value"]


def test_what_is_to_be_told_later_waits() -> None:
    collation = Collation(None, NAMES, later=True)
    collation.field("tokens", RAGGED)  # warnings are errors
    with pytest.warns(UserWarning, match="field 'tokens' differs in shape") as told:
        collation.tell_waiting(1)
    assert [one.filename for one in told] == [__file__]
    collation.field("tokens", RAGGED)
    collation.tell_waiting()


@pytest.mark.parametrize(
    "options",
    [{}, {"sample_transform": lambda sample: {"x": sample["x"]}}],
    ids=["fields", "samples"],
)
def test_a_loader_warns_at_the_line_that_takes_the_batch(tmp_path: Path, options: dict[str, Any]) -> None:
    with cw.Writer(tmp_path / "s") as writer:
        for count in (3, 1, 2):
            writer.append({"x": torch.ones(count)})
    loader = cw.Loader(cw.open(tmp_path / "s"), batch_size=3, **options)
    with pytest.warns(UserWarning, match="field 'x' differs in shape") as told:
        assert [len(batch["x"]) for batch in loader] == [3]
    assert [one.filename for one in told] == [__file__]
    assert [len(batch["x"]) for batch in loader] == [3]  # once; warnings are errors
