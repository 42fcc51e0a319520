"""Few turns, and what they are trusted with."""

import pytest

from cordwood.doctor.measure.pairs import careful


@pytest.mark.parametrize(
    ("times", "sure"),
    [
        ([(50.0, 30.0)] * 5, True),
        ([(50.0, 30.0), (51.0, 29.0), (49.0, 31.0), (50.0, 30.5), (50.5, 30.0)], True),
        # The middle of the differences is large, but in one turn it was the other way round.
        ([(50.0, 30.0), (50.0, 30.0), (50.0, 30.0), (50.0, 30.0), (30.0, 50.0)], False),
        # Most turns agree exactly, and the others are far away.
        ([(50.0, 45.0), (50.0, 45.0), (50.0, 45.0), (90.0, 45.0), (99.0, 45.0)], False),
    ],
)
def test_few_turns_are_not_trusted_blindly(times: list[tuple[float, float]], sure: bool) -> None:
    assert careful(times).is_sure is sure


def test_a_setting_that_is_always_slower_has_its_own_spread() -> None:
    gain = careful([(30.0, 50.0), (30.0, 50.5), (30.0, 49.5), (30.0, 50.0), (30.0, 50.0)])
    assert not gain.is_sure
    assert gain.saves_ms == pytest.approx(-20.0)
    assert gain.spread_ms < 1
