"""costs: fixed numbers in the order that decoding has on every machine."""

import pytest

from cordwood.codecs.chooser import WEIGHT, cost
from cordwood.codecs.plan import GOALS, STAGES
from cordwood.codecs.stages.base import Stage
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd


@pytest.mark.parametrize("kind", STAGES.values(), ids=STAGES)
def test_no_stage_is_free(kind: type[Stage]) -> None:
    assert cost((kind(),), 1.0) > cost((), 1.0) > 0


def test_faster_coders_cost_less() -> None:
    ordered = [Raw(), Lz4(), Entropy("huffman"), Entropy("ans")]
    costs = [cost((stage,), 1.0) for stage in ordered]
    assert costs == sorted(costs)
    assert cost((Lz4(),), 1.0) < cost((Zstd(),), 1.0)


def test_fewer_codes_cost_less() -> None:
    for stages in ((Entropy(),), (Predict("med"), Entropy("ans")), (Predict("delta"), Planes(), Zstd())):
        assert cost(stages, 0.25) < cost(stages, 1.0)


def test_goals_weigh_time_ever_more() -> None:
    weights = [WEIGHT[goal] for goal in GOALS]
    assert weights == sorted(weights)
    assert len(set(weights)) == len(GOALS)
