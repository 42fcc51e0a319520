"""Numbers as people read them."""

import pytest

from cordwood.common.numbers import (
    clock_text,
    factor,
    few_digits,
    figure,
    four_digits,
    milliseconds,
    percent,
    percent_of,
    rate_text,
    rough_milliseconds,
    with_spread,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "?"), (0.0, "0.00"), (0.0123, "0.012"), (0.5, "0.50"), (9.96, "10.0"), (41.24, "41.2"), (1234.5, "1,234")],
)
def test_figures_have_about_three_digits(value: float | None, text: str) -> None:
    assert figure(value) == text
    assert milliseconds(value) == (text if value is None else f"{text} ms")


@pytest.mark.parametrize(
    ("share", "text"), [(None, "?"), (0.0, "0%"), (0.0002, "<0.1%"), (0.004, "0.4%"), (0.62, "62%"), (1.0, "100%")]
)
def test_shares(share: float | None, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (41.2, 3.04, "41 ± 3"),
        (41.24, 0.3, "41.2 ± 0.3"),
        (2.5, 0.05, "2.50 ± 0.05"),
        (1.5, None, "1.50"),
        (0.5, 0, "0.500 ± 0.000"),
    ],
)
def test_the_spread_says_how_many_digits_mean_something(value: float, spread: float | None, text: str) -> None:
    assert with_spread(value, spread) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0:00"),
        (7, "0:07"),
        (151, "2:31"),
        (59.6, "1:00"),
        (3600, "1:00:00"),
        (39_751, "11:02:31"),
        (270_000, "3 d 3:00:00"),
    ],
)
def test_time_as_a_clock_shows_it(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


def test_numbers_and_shares_as_people_read_them() -> None:
    assert [four_digits(each) for each in (None, 0, -17, 10**12, 2.0, 1 / 3, float("inf"))] == [
        "-",
        "0",
        "-17",
        "1e+12",
        "2",
        "0.3333",
        "inf",
    ]
    assert [percent_of(part, 10_000) for part in (0, 1, 50, 9_999, 10_000)] == ["0%", "<0.1%", "0.5%", ">99.9%", "100%"]
    assert percent_of(0, 0) == "0%"


@pytest.mark.parametrize(
    ("ratio", "text"), [(3.5, "3.5x"), (0.25, "4.0x"), (1234.0, "1,234.0x"), (1.04, None), (0.96, None)]
)
def test_how_many_times_as_large(ratio: float, text: str | None) -> None:
    assert factor(ratio) == text


def test_rates_and_estimates_have_fewer_digits() -> None:
    assert [rate_text(rate) for rate in (0.25, 45.32, 99.9, 100.2, 1234.5)] == ["0.2", "45.3", "99.9", "100", "1,234"]
    assert [few_digits(number) for number in (1.04, 9.94, 9.96, 1234.5)] == ["1.0", "9.9", "10", "1,234"]
    found = [rough_milliseconds(each) for each in (1e-6, 0.00025, 0.0025, 0.025, 2.5)]
    assert found == ["<0.01 ms", "0.25 ms", "2.5 ms", "25 ms", "2,500 ms"]
