"""Reports whether a store is still being packed: it can be read, but holds only a part of its samples.

note = unfinished("train.cordwood")
note and print(note)
"""

import json
import os
from pathlib import Path
from typing import Final

from cordwood.common.files import read_all
from cordwood.errors import CordwoodError

_JOB: Final = "pack.json"  # packing writes it: what a store is packed from, and whether all of that is in it
_MOST_BYTES = 64 << 20


def unfinished(path: str | os.PathLike[str]) -> str | None:
    """What to say of a store whose packing was stopped, or goes on just now; None of all others.

    Nothing in the job is needed to read samples, so one that cannot be read is no damage here.
    """
    try:
        job = json.loads(read_all(Path(path) / _JOB, "the job", _MOST_BYTES))
    except (CordwoodError, ValueError, RecursionError):
        return None
    if not isinstance(job, dict) or job.get("complete") is not False:
        return None
    return "packing is not finished, and only the shards that are done can be read; the same pack call goes on"
