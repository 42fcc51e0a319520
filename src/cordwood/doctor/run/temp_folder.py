"""A temporary folder that lives as long as its owner, and that only the process that made it removes.

    folder = Folder(self)
    folder.path
    folder.remove()

A process that is killed leaves its folder behind; the next one sweeps it away.
"""

import os
import re
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

_NAME = re.compile(r"cordwood-doctor-(\d+)-.*")


class Folder:
    """Where worker processes leave what they have seen."""

    def __init__(self, owner: object) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"cordwood-doctor-{os.getpid()}-"))
        self.remove = weakref.finalize(owner, _remove, self.path, os.getpid())
        with suppress(OSError):
            sweep(self.path.parent)


def sweep(folder: Path) -> None:
    """Remove what processes that are no more have left."""
    for path in folder.iterdir():
        name = _NAME.fullmatch(path.name)
        if name is not None and path.lstat().st_uid == os.getuid() and not _lives(int(name[1])):
            shutil.rmtree(path, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def _remove(path: Path, process: int) -> None:
    # A forked child has a copy of the owner; the folder is still its parent's.
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
