"""Formats numbers for people, with only the digits that matter.

milliseconds(41.23), percent(0.62), clock_text(151), factor(0.28)     # 41.2 ms, 62%, 2:31, 3.6x
"""

import math


def milliseconds(value: float | None) -> str:
    """``41.2 ms``, ``0.62 ms``, ``1,200 ms``: about three digits, since more would be noise."""
    return "?" if value is None else f"{figure(value)} ms"


def figure(value: float | None) -> str:
    """The same without its unit."""
    if value is None:
        return "?"
    size = abs(value)
    digits = 0 if size >= 99.5 else 1 if size >= 9.95 else 2 if size >= 0.095 or not size else 3
    return f"{value:,.{digits}f}"


def with_spread(value: float, spread: float | None) -> str:
    """``41 ± 3``: no digit that the spread makes meaningless."""
    if spread is None:
        return figure(value)
    digits = 0 if spread >= 2 else 1 if spread >= 0.2 else 2 if spread >= 0.02 else 3
    return f"{value:,.{digits}f} ± {spread:,.{digits}f}"


def percent(share: float | None) -> str:
    """``62%``; ``0.4%`` where whole percents would say nothing."""
    if share is None:
        return "?"
    if 0 < abs(share) < 0.01:
        return "<0.1%" if abs(share) < 0.001 else f"{share:.1%}"
    return f"{share:.0%}"


def percent_of(part: int, whole: int) -> str:
    """A part in percent; a few of many are not said to be none, nor nearly all to be all."""
    if not part or part == whole:
        return f"{100 * (part == whole and part > 0)}%"
    percent = 100 * part / max(whole, 1)
    return "<0.1%" if percent < 0.1 else ">99.9%" if percent > 99.9 else f"{percent:.1f}%"


def times(count: float) -> str:
    """How often: ``512``, ``1,000``, ``2.5``, ``0.25``."""
    return f"{count:,.0f}" if count >= 9.95 else f"{count:.2g}"


def seconds(value: float | None) -> str:
    """``3.2 s``."""
    return "?" if value is None else f"{value:.2g} s" if value < 1 else f"{value:,.1f} s"


def clock_text(seconds: float) -> str:
    """A length of time as a clock shows it: ``0:07``, ``2:31``, ``11:02:31``, ``3 d 2:10:00``."""
    whole = round(seconds)
    days, rest = divmod(whole, 86_400)
    hours, minutes = rest // 3600, rest % 3600 // 60
    text = f"{hours}:{minutes:02}:{rest % 60:02}" if days or hours else f"{minutes}:{rest % 60:02}"
    return f"{days} d {text}" if days else text


def factor(ratio: float) -> str | None:
    """How many times as large the larger of two sizes is: ``"3.5x"``, or None if they are about the same."""
    times = f"{max(ratio, 1 / ratio):,.1f}x"
    return None if times == "1.0x" else times


def rate_text(rate: float) -> str:
    """Return a rate with only the digits that matter."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def few_digits(number: float) -> str:
    """Return a number with only the digits that a few measurements support."""
    return f"{number:.1f}" if number < 9.95 else f"{number:,.0f}"


def rough_milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds, with only the digits that a few measurements support."""
    ms = seconds * 1000
    if ms < 0.01:
        return "<0.01 ms"
    return f"{ms:,.0f} ms" if ms >= 10 else f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2f} ms"


def four_digits(value: int | float | None) -> str:
    """Four digits of a number; integers whole while they are short."""
    if value is None:
        return "-"
    if isinstance(value, int) and abs(value) < 10**9:
        return str(int(value))
    return f"{value:.4g}" if not isinstance(value, float) or math.isfinite(value) else str(value)
