"""What happens when an input fails: the job stops, or it continues without the input and lists it.

failures = Failures("skip", most=100, log=Path("train.cordwood.errors.jsonl"))
failures(17, input, failure)            # PackError if that was one too many
"""

import json
import logging
import os
import pickle
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, get_args

from cordwood.common.arguments import one_of, whole_number
from cordwood.common.files import read_all
from cordwood.errors import PackError, StorageError
from cordwood.packing.journal.failure import Failure
from cordwood.sources import Input

OnError = Literal["fail", "skip", "retry"]
WAYS: Final[tuple[OnError, ...]] = get_args(OnError)
_MOST_BYTES = 1 << 34  # of a list of failures
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")  # that JSON leaves as they are

_LOG = logging.getLogger("cordwood.pack")


class Failures:
    """Told of every input that failed, in order. `most` of them in a row are skipped, one more is an error."""

    def __init__(self, on_error: str, most: int, log: Path) -> None:
        self.log = log
        self.kept = "what comes before it is packed, and the same call goes on there"  # what a message may promise
        self._on_error = one_of("on_error", on_error, WAYS)
        self._most = whole_number("max_errors", most)
        self._last = -1
        self._in_row = 0

    @property
    def skips(self) -> bool:
        """Whether inputs that fail are left out."""
        return self._on_error == "skip"

    def forget_from(self, number: int) -> None:
        """Take back what was told of inputs from this one on: they are done again."""
        if not self.log.exists():
            return
        kept = 0
        for line in read_all(self.log, "the list of inputs that failed", _MOST_BYTES).splitlines(keepends=True):
            try:
                if json.loads(line)["input"] >= number:
                    break
            except (ValueError, KeyError, TypeError):  # cut short by a kill
                break
            kept += len(line)
        if kept:
            os.truncate(self.log, kept)
        else:
            self.log.unlink()

    def commonest(self) -> str:
        """The reason that most of the listed inputs have, how many, and the first of them; empty if none is listed."""
        data = read_all(self.log, "the list of inputs that failed", _MOST_BYTES) if self.log.exists() else b""
        counts: Counter[str] = Counter()
        firsts: dict[str, str] = {}
        for line in data.splitlines():
            with suppress(ValueError, KeyError, TypeError):  # cut short by a kill
                one = json.loads(line)
                why = _without_name(one["error"], one["name"])
                counts[why] += 1
                firsts.setdefault(why, _called(one["input"], one["name"]))
        for why, count in counts.most_common(1):
            return f"{why} ({count:,} of them, such as {firsts[why]})"
        return ""

    def __call__(self, number: int, one: Input, failure: Failure) -> None:
        """An input failed."""
        name = _called(number, one.name)
        why = _without_name(failure.error, one.name)
        if self._on_error != "skip":
            raise _raised(
                f'{name} failed: {why}; {self.kept}; on_error="skip" (--on-error skip) goes on without it', failure
            )
        self._in_row = self._in_row + 1 if number == self._last + 1 else 1
        self._last = number
        if self._in_row > self._most:
            raise _raised(
                f"{name} failed, as {self._most} inputs before it did: {why}; that many in a row are no "
                f"accident, see {self.log}; max_errors (--max-errors) allows more",
                failure,
            )
        told = {"input": number, "name": one.name, "error": failure.error, "traceback": failure.traceback}
        more = {} if failure.seconds is None else {"seconds": failure.seconds}
        try:
            with self.log.open("ab") as file:
                file.write(listed(told | more))
        except OSError as error:
            raise StorageError(
                error.errno, f"{error.strerror or error}: the list of inputs that failed", os.fspath(self.log)
            ) from error


def _called(number: int, name: str | None) -> str:
    return f"input {number}" + (f" ({name})" if name is not None else "")


def listed(told: dict[str, Any]) -> bytes:
    """A line of the list, in UTF-8, so that a person can read the names in it."""
    text = json.dumps(told, ensure_ascii=False)
    # Also for those who cut the text into lines by whatever Python takes for the end of one.
    text = _LINE_ENDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    # Bytes of a file's name that are no UTF-8 are lone surrogates here: their escapes are JSON's own.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _without_name(error: str, name: str | None) -> str:
    """What is told of an error, which readers of files begin with the name that the message has already."""
    if name is None:
        return error
    return re.sub(rf"^(\w+: )(?:\[Errno \d+\] )?{re.escape(name)}: ", r"\1", error, count=1)


def _raised(message: str, failure: Failure) -> PackError:
    error = PackError(message)
    # A cause is shown before its consequence: the last line is the message, and the worker's traceback stands above.
    error.__cause__ = _cause(failure)
    return error


def _cause(failure: Failure) -> BaseException:
    """What the worker raised, with the lines of the caller's own that led to it; at the log's level "debug" all."""
    lines = failure.traceback if failure.own is None or _LOG.isEnabledFor(logging.DEBUG) else failure.own
    notes = [f"in the process that did it:\n{lines}"] if lines else []
    if failure.pickled is not None:
        with suppress(Exception):  # a class that is there, but not here: its text is told anyway
            cause: BaseException = pickle.loads(failure.pickled)  # noqa: S301 - from a process of ours
            return _noted(cause, notes)
    return _noted(RuntimeError(failure.error), notes)


def _noted(error: BaseException, notes: list[str]) -> BaseException:
    for note in notes:
        error.add_note(note)
    return error
