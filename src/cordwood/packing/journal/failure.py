"""Why one input failed, in a form that travels between processes.

    try:
        made = transform.apply(sample, seed)
    except Exception as error:
        failure = Failure.of(error, absence(error, sample, why))
    failure.error       # "KeyError: 'label' (the sample has the fields 'image', 'path'; ...)"

`traceback` is all of it, for the list of failures. `own` is what a person needs to see: the frames of this package are
in the way, and where data are bad, the sentence says it all.
"""

import os
import pickle
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

from cordwood.common import PACKAGE
from cordwood.errors import CordwoodError, UsageError
from cordwood.store import shown_names

_OURS = f"{PACKAGE}{os.sep}"


class Failure(NamedTuple):
    """Why an input gave no samples."""

    error: str  # "ValueError: ..."
    traceback: str
    pickled: bytes | None = None  # the exception itself, if it survives that
    own: str | None = None  # the traceback without our frames, "" if nothing is left; None: show all
    seconds: float | None = None  # that it ran, if it was stopped since it took too long

    @classmethod
    def of(cls, error: BaseException, hint: str = "") -> "Failure":
        """What is to be told of an exception, and what else may help."""
        try:
            text = str(error)
        except Exception:  # classes of others
            text = "(its text cannot be told)"
        pickled: bytes | None
        try:
            pickled = data = pickle.dumps(error)
            pickle.loads(data)  # noqa: S301 - our own bytes: some exceptions can be pickled, but not made again
        except Exception:  # whatever classes of others raise
            pickled = None
        told = f"{type(error).__name__}: {text:.2000}" + (f" ({hint})" if hint else "")
        return cls(told, "".join(traceback.format_exception(error)), pickled, _own(error))

    @classmethod
    def of_timeout(cls, timeout: float, seconds: float, inputs: int) -> "Failure":
        """Of an input, or a batch of several, that was stopped when it had run for so many seconds."""
        what = "it" if inputs == 1 else f"its batch of {inputs} inputs"
        error = TimeoutError(f"{what} took longer than timeout={timeout:g} seconds, and the worker process was killed")
        return cls.of(error)._replace(seconds=round(seconds, 3))


def _own(error: BaseException) -> str:
    """The traceback as whoever wrote the transform needs it."""
    # UsageError is no matter of data: a transform may have called this package wrongly, and its lines show where.
    if isinstance(error, CordwoodError) and not isinstance(error, UsageError):
        return ""
    told = traceback.TracebackException.from_exception(error)
    left, link = 0, told
    while True:
        link.stack[:] = [frame for frame in link.stack if not frame.filename.startswith(_OURS)]
        left += len(link.stack)
        before = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        if before is None:
            return "".join(told.format()) if left else ""
        link = before


def absence(error: BaseException, sample: Any, why: Mapping[str, str]) -> str:
    """What to say of a KeyError for a field that the sample lacks: which ones it has, and `why` the source gives none.

    Empty for every other error.
    """
    name = error.args[0] if type(error) is KeyError and len(error.args) == 1 else None
    if not isinstance(name, str) or not isinstance(sample, Mapping) or name in sample:
        return ""
    fields = f"the sample has the fields {shown_names(list(map(str, sample)))}"
    return f"{fields}; {why[name]}" if name in why else fields
