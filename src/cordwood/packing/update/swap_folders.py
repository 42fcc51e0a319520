"""Replaces the folder of a store by a new one, also if the process is killed on the way.

    with exchanged(folder) as new:
        ...                         # write a store into the folder `new`
    # now it has the name of the old one, which is gone

The new one is made in ``.<name>.update``, beside the store. The old one is renamed to ``.<name>.before-update`` when
the new one is complete and on the disk, and removed when the new one has its name. So whoever finds the second of
these knows what is left to do, which is what `recover` does.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cordwood.errors import StorageError
from cordwood.store.format.folder import OpenFolder, sync_parent
from cordwood.store.format.lock import WriterLock
from cordwood.store.format.new_folder import set_aside


def _new(store: Path) -> Path:
    return store.with_name(f".{store.name}.update")


@contextmanager
def exchanged(folder: OpenFolder) -> Iterator[Path]:
    """A folder that takes the place of a store when the block is left without an exception, and its lock with it."""
    store, new = folder.path, _new(folder.path)
    with suppress(FileNotFoundError):  # of an update that was killed
        shutil.rmtree(new)
    try:
        new.mkdir()
    except OSError as error:
        raise StorageError(error.errno, f"{error.strerror or error}: nothing was changed", str(new)) from error
    lock = WriterLock(new)
    try:
        yield new
        sync_parent(new / "x")
        _change_places(store)
    except BaseException as error:
        lock.release()
        if store.exists():
            shutil.rmtree(new, ignore_errors=True)
            error.add_note(f"{store} is as it was before the update")
        raise
    folder.lock.release()
    folder.lock = lock


def _change_places(store: Path) -> None:
    old = set_aside(store)
    try:
        store.rename(old)
        try:
            _new(store).rename(store)
        except BaseException:
            old.rename(store)
            raise
        sync_parent(store)
    except OSError as error:
        raise StorageError(
            error.errno, f"{error.strerror or error}: the store cannot be replaced", str(store)
        ) from error
    shutil.rmtree(old, ignore_errors=True)


def recover(store: Path) -> None:
    """Finish what a process began that was killed while folders changed places; for whoever is about to write."""
    old, new = set_aside(store), _new(store)
    if not old.exists():
        return
    if not store.exists():
        # The new one was complete before the old one was moved. Whoever has its lock is at it just now.
        lock = WriterLock(new) if new.exists() else None
        try:
            (old if lock is None else new).rename(store)
            sync_parent(store)
        except OSError as error:
            raise StorageError(
                error.errno,
                f"{error.strerror or error}: an update was killed; rename {new.name} to {store.name} by hand",
                str(store),
            ) from error
        finally:
            if lock is not None:
                lock.release()
    shutil.rmtree(old, ignore_errors=True)
