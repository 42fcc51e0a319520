"""Stages: frozen, compared by value, with parameters that are checked where they are given."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from cordwood.codecs.chain import STAGES
from cordwood.codecs.stages.base import DEFAULTS, Stage
from cordwood.codecs.stages.predict import Predict
from cordwood.errors import UsageError


@pytest.mark.parametrize("kind", STAGES.values(), ids=STAGES)
def test_every_stage_tells_the_encoder_known_numbers(kind: type[Stage]) -> None:
    stage = kind()
    assert str(stage) == kind.name
    assert set(stage.settings()) <= set(DEFAULTS)
    assert all(type(number) is int for number in stage.settings().values())
    assert kind(**stage.parameters()) == stage


@pytest.mark.parametrize("kind", STAGES.values(), ids=STAGES)
def test_stages_are_fixed(kind: type[Stage]) -> None:
    stage = kind()
    assert hash(stage) == hash(kind())
    with pytest.raises(FrozenInstanceError):
        stage.name = "other"  # type: ignore[misc]


def test_layout_comes_before_coding() -> None:
    places = {name: kind.place for name, kind in STAGES.items()}
    assert places["narrow"] == places["palette"] < places["predict"] < places["planes"] < places["entropy"]
    assert {places[name] for name in ("entropy", "zstd", "lz4", "raw")} == {3}


def test_a_stage_of_no_kind_encodes_nothing() -> None:
    with pytest.raises(TypeError, match="Stage is not a stage that encodes"):
        Stage().settings()


@pytest.mark.parametrize(
    ("stage", "parameters", "message"),
    [
        ("predict", {"kind": "paeth"}, "predict: kind is 'paeth', but can be 'med', 'delta'"),
        ("predict", {"geometry": "whc"}, "predict: geometry is 'whc', but can be 'hw', 'chw', 'hwc'"),
        ("predict", {"color": "red"}, "predict: color is 'red', but can be 'none', 'green', 'previous'"),
        ("predict", {"lag": 0}, "predict: lag is 0, but can be 1 to 4294967295"),
        ("predict", {"lag": 2**32}, "predict: lag is 4294967296"),
        ("predict", {"lag": 2.0}, "predict: lag is 2.0"),
        ("narrow", {"pack_bits": 1}, "narrow: pack_bits is 1, but can be True, False"),
        ("narrow", {"align_top": "no"}, "narrow: align_top is 'no'"),
        ("palette", {"bits": 12}, "palette: bits is 12, but can be 8, 16"),
        ("palette", {"bits": 8.0}, "palette: bits is 8.0"),
        ("palette", {"axis": 0}, "palette: axis is 0, but counts from the end"),
        ("palette", {"axis": -65}, "palette: axis is -65"),
        ("palette", {"source": "formula"}, "palette: a formula goes with source='formula'"),
        ("palette", {"source": "cloud"}, "palette: source is 'cloud', but can be 'frame', 'formula', 'plan'"),
        ("planes", {"rotated": 0}, "planes: rotated is 0, but can be True, False"),
        ("entropy", {"tile": 16.0}, "entropy: tile is 16.0"),
        ("entropy", {"max_tables": 2.0}, "entropy: max_tables is 2.0"),
    ],
)
def test_wrong_parameters_are_named(stage: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        STAGES[stage](**parameters)
    assert message in str(caught.value)


def test_the_readable_form() -> None:
    assert str(Predict("delta", lag=2)) == "predict[delta]"
    assert str(STAGES["palette"](axis=-3)) == "palette[channel]"  # type: ignore[call-arg]
