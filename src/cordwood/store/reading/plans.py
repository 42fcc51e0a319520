"""Loads the plans that frames of open stores need, when the first frame needs one.

A short frame is read with the plan that the table of its shard names; a full frame names what its plan owns by a hash.
Which plans there are is stated by the store, by the table, and by the footer of the sample's shard, which may have come
from another store. A plan's file that is lost or damaged matters only to frames that use it: reading one of those
raises an error.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cordwood.codecs import NO_PLANS, plan_set
from cordwood.common.forks import ForkSafeLock
from cordwood.errors import CordwoodError, FormatError, StorageError
from cordwood.store.format import plan_files
from cordwood.store.format.shard_file import read_ends, read_footer


class LoadedPlans:
    """`handle` is what the native calls take; it is replaced, never changed, so calls under way keep theirs."""

    def __init__(self) -> None:
        self.handle = NO_PLANS
        self._loaded: dict[str, Any] = {}  # by name, as the native call takes them
        self._tried: set[tuple[Path, str]] = set()
        self._lock = ForkSafeLock()

    def load(self, used: Any, store: Path, names: Sequence[str], shard: Path) -> bool:
        """Load the plans of a shard; whether there are others now than in the handle that was `used`."""
        wanted = _all_names(names, shard)
        with self._lock:
            new = [name for name in wanted if (store, name) not in self._tried]
            for name in new:
                try:
                    self._loaded[name] = plan_files.load(store, name).native(int(name, 16))
                except (FormatError, StorageError):
                    continue  # `explain` says it, if a frame needs this one
            if new:
                self.handle = plan_set(self._loaded.values())
            # At last, so that a process that is forked meanwhile tries again.
            self._tried.update((store, name) for name in new)
            return self.handle is not used

    def explain(self, store: Path, names: Sequence[str], shard: Path, where: str) -> None:
        """Raise what is wrong with the plans of a shard, of which a frame needs one that was not to be had."""
        for name in _all_names(names, shard):
            try:
                plan_files.load(store, name)
            except FormatError as error:
                raise FormatError(f"{where}: {error}", error.reason) from None


def _all_names(names: Sequence[str], shard: Path) -> list[str]:
    try:
        told = read_footer(shard, read_ends(shard)).get("plans")
    except CordwoodError:
        told = None
    more = [name for name in told if plan_files.is_plan_name(name)] if isinstance(told, list) else []
    return list(dict.fromkeys([*names, *more]))
