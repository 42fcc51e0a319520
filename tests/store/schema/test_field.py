"""Field: what a caller may ask for one field."""

from typing import Any

import pytest

from cordwood.errors import UsageError
from cordwood.store.schema.field import Field, can_store


def test_a_field_asks_for_nothing_by_default() -> None:
    assert Field() == Field(goal=None, store_as=None, varies=False, classes=None)


def test_classes_become_a_tuple_of_their_own() -> None:
    names = ["cat", "dog"]
    field = Field(goal="raw", classes=names)
    names.append("bird")
    assert field.classes == ("cat", "dog")
    assert hash(field) == hash(Field(goal="raw", classes=("cat", "dog")))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"goal": "tiny"}, "goal must be 'small', 'balanced', 'fast' or 'raw', got 'tiny'"),
        ({"store_as": "int8"}, "store_as='int8' is not possible.*float16, bfloat16, float32"),
        ({"store_as": "float64"}, "store_as='float64' is not possible"),
        ({"varies": 1}, "varies must be True or False, got 1"),
        ({"varies": True, "store_as": "float16"}, "a field that varies has no store_as"),
        ({"varies": True, "classes": ["a"]}, "a field that varies has no classes"),
        ({"classes": "cat"}, "classes='cat', but is a list of names"),
        ({"classes": ["cat", 3]}, "is a list of names"),
        ({"classes": []}, "classes is empty"),
        ({"classes": ["a", "b", "a"]}, "names 'a' twice"),
        ({"classes": ["\ud83d"]}, "lone surrogate"),
    ],
)
def test_what_cannot_be_asked_for(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Field(**asked)


def test_precision_is_given_up_only_from_wider_floats() -> None:
    assert can_store("float32", "float16")
    assert can_store("float64", "float32")
    assert can_store("float32", "bfloat16")
    for dtype, narrower in [
        ("float16", "bfloat16"),
        ("bfloat16", "float16"),
        ("float32", "float32"),
        ("int64", "float32"),
        ("complex128", "float32"),
        ("float64", "float64"),
        ("", "float16"),
    ]:
        assert not can_store(dtype, narrower)
