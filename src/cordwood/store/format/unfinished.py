"""What a packing job tells of its store: whether it is still being packed, and how many samples it has if not.

note = unfinished("train.cordwood")
note and print(note)
"""

import json
import os
from pathlib import Path
from typing import Any, Final

from cordwood.common.files import read_all
from cordwood.errors import CordwoodError

_JOB: Final = "pack.json"  # packing writes it: what a store is packed from, and whether all of that is in it
_MOST_BYTES = 64 << 20


def unfinished(path: str | os.PathLike[str]) -> str | None:
    """What to say of a store whose packing was stopped, or goes on just now; None of all others.

    Nothing in the job is needed to read samples, so one that cannot be read is no damage here.
    """
    if _job(path).get("complete") is not False:
        return None
    return "packing is not finished, and only the shards that are done can be read; the same pack call goes on"


def packed_samples(path: str | os.PathLike[str]) -> int:
    """How many samples a finished job has packed; 0 if that is not known. A writer may have added more."""
    totals = _job(path).get("totals")
    samples = totals.get("samples") if isinstance(totals, dict) else None
    return samples if type(samples) is int and 0 <= samples < 1 << 63 else 0


def _job(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        job = json.loads(read_all(Path(path) / _JOB, "the job", _MOST_BYTES))
    except (CordwoodError, ValueError, RecursionError):
        return {}
    return job if isinstance(job, dict) else {}
