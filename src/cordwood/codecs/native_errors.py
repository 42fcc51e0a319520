"""Turns native error tuples into exceptions that say what was found, what was expected, where, and what to do."""

from typing import Any

from cordwood.errors import REASONS, FormatError, UsageError

_WHAT_TO_DO = {
    "truncated": "The file or message was cut short: fetch or write it again.",
    "magic": "This is not what it was taken for: check the path, or the offset in the file.",
    "version": "It was written by a newer Cordwood: upgrade with `pip install -U cordwood`.",
    "flags": "It uses a feature of a newer Cordwood: upgrade with `pip install -U cordwood`.",
    "header-checksum": "The bytes changed after they were written: restore them from the original.",
    "block-checksum": "The bytes changed after they were written: restore them from the original.",
    "plan-missing": "Pass the plan it was encoded with: decode(frame, plans=plan).",
    "plan-mismatch": "The plan given is not the one it was encoded with: pass that one.",
    "limit": "If you trust the source, pass a higher limit=.",
}
_BROKEN = "The bytes are damaged, or were made by a faulty writer: restore them from the original, or encode again."


def raise_if_refused(answer: Any, what: str = "frame", item: int | None = None) -> None:
    """Raises if a native call answered with an error tuple."""
    if not isinstance(answer, tuple) or len(answer) != 7 or not isinstance(answer[2], str):
        return
    number, reason, field, found, expected, offset, block = answer
    if item is not None:
        what = f"{what} {number}"
    if reason not in REASONS:
        raise UsageError(f"{what}: {field}: found {found}, expected {expected}")
    name = REASONS[reason]
    place = f"at byte {offset}" + (f" (block {block})" if block >= 0 else " (header)" if what != "plan" else "")
    if name in ("header-checksum", "block-checksum", "magic", "plan-missing"):
        found, expected = (
            f"{found:#010x}",
            f"{expected:#010x}" if name != "plan-missing" else f"one of {expected} given",
        )
    advice = _WHAT_TO_DO.get(name, _BROKEN)
    raise FormatError(
        f"{what} refused ({reason}, {name}) {place}: {field}: found {found}, expected {expected}. {advice}", reason
    )
