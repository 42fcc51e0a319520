"""Folders in memory, where a machine has some: jobs sync thousands of small files, and disks are slow at that."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A new folder, gone in the end."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as made:
        yield Path(made)
