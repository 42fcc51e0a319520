"""refusal: what the native code found wrong becomes one sentence with all there is to know."""

from typing import Any

import pytest

from cordwood.codecs.native_errors import raise_if_refused
from cordwood.errors import REASONS, FormatError, UsageError


@pytest.mark.parametrize("answer", [None, b"bytes", {"dtype": 1}, (1, 2), (b"", b"", b"", b"", b"", b"", b"")])
def test_answers_that_are_no_errors(answer: Any) -> None:
    raise_if_refused(answer)


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_says_what_where_and_what_to_do(reason: int) -> None:
    with pytest.raises(FormatError) as caught:
        raise_if_refused((0, reason, "some field", 1234, 5678, 77, 3))
    text = str(caught.value)
    assert caught.value.reason == reason
    assert f"({reason}, {REASONS[reason]}) at byte 77 (block 3): some field: found" in text
    found, expected = ("0x000004d2", "0x0000162e") if "0x" in text else ("1234", "5678")
    assert f"found {found}, expected " in text
    assert expected in text or "one of 5678 given" in text
    assert len(text.split(". ", 1)[1]) > 20  # advice


def test_headers_items_and_plans_are_told_apart() -> None:
    with pytest.raises(FormatError, match=r"^frame refused .* at byte 5 \(header\)"):
        raise_if_refused((0, 2, "magic", 0, 1, 5, -1))
    with pytest.raises(FormatError, match=r"^frame 7 refused "):
        raise_if_refused((7, 2, "magic", 0, 1, 5, -1), item=0)
    with pytest.raises(FormatError, match=r"^plan refused \(1, truncated\) at byte 5: "):
        raise_if_refused((0, 1, "magic", 0, 1, 5, -1), "plan")


def test_misuse_is_not_the_bytes_fault() -> None:
    with pytest.raises(UsageError, match="array: out: found 3, expected 4"):
        raise_if_refused((0, 200, "out", 3, 4, 0, -1), "array")
