"""Turns errors of the native reader into exceptions that name the shard, the sample and the field."""

from typing import TYPE_CHECKING

from cordwood.codecs import raise_if_refused
from cordwood.errors import REASONS, FormatError, Reason

if TYPE_CHECKING:
    from cordwood.native import _native

OUT_SHAPE, OUT_DTYPE = 200, 201
_ROW_CHECKSUM, _ROW_OFFSETS, _CUT_SHORT, _ROW_TAG = 210, 211, 212, 213
_OF_SHORT, _NOT_SHORT = "checksum of the frame", "first byte of a frame that the row covers"
_REST = "The other samples can be read; `cordwood verify` lists all damage, and with --salvage keeps what is good."


def fault_error(where: str, fault: "_native.ErrorTuple") -> FormatError:
    """The error for a native error tuple; `where` names shard, sample and field."""
    _, reason, what, found, expected, offset, _ = fault
    if reason == _CUT_SHORT:
        text = f"the file ends before byte {offset + expected}, inside a {what}: it was cut short while it was open"
        return FormatError(f"{where}: {text}. Restore it from a copy. {_REST}", Reason.TRUNCATED)
    if reason == _ROW_CHECKSUM:
        text = f"the row at byte {offset} has checksum {found:#010x}, but {expected:#010x} was written"
        return FormatError(f"{where}: {text}: the sample is lost. {_REST}", Reason.BLOCK_CHECKSUM)
    if reason == _ROW_OFFSETS:
        return FormatError(f"{where}: {what} is {found}, which is before {expected} or behind the frames. {_REST}")
    if reason == _ROW_TAG and what == _OF_SHORT:  # over all of its bytes
        text = f"the frame at byte {offset} has checksum {found:#010x}, but the row says {expected:#010x}"
        return FormatError(f"{where}: {text}: it is not what was written. {_REST}", Reason.BLOCK_CHECKSUM)
    if reason == _ROW_TAG and what == _NOT_SHORT:
        return FormatError(f"{where}: the {what}, at byte {offset}, is {found}, which is no short one's. {_REST}")
    if reason == _ROW_TAG:
        text = f"the frame at byte {offset} has the header checksum {found:#010x}, but the row says {expected:#010x}"
        return FormatError(f"{where}: {text}: it is the frame of another sample. {_REST}")
    if reason == OUT_DTYPE:
        return FormatError(f"{where}: the frame holds dtype number {found}, which the schema does not tell. {_REST}")
    if reason not in REASONS:
        return FormatError(f"{where}: {what}: found {found}, expected {expected}. {_REST}")
    try:
        raise_if_refused(fault)
    except FormatError as error:
        return FormatError(f"{where}: {error} {_REST}", error.reason)
    raise AssertionError(fault)  # every number of REASONS is raised above
