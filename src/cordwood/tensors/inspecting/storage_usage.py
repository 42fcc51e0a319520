"""The size of each storage of a file, and how much of it any tensor reaches.

::

    accounts, trouble = take_accounts(file, description_of(file))
    sum(account.wasted for account in accounts.values())

Unlike trimming, which refuses what it does not understand, this goes on: a storage that is missing counts as empty, one
that something else than a tensor refers to counts as reached in full, and what is wrong is told in words.
"""

from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

import numpy as np

from cordwood.errors import FormatError
from cordwood.tensors.formats.detect import PickledFile
from cordwood.tensors.layout.overlap import Reach, reach_of
from cordwood.tensors.layout.reachable import View, lay_out
from cordwood.tensors.saving.collect import TRIPWIRE
from cordwood.tensors.unpickle.describe import Description, Persistent
from cordwood.tensors.unpickle.references import find_references
from cordwood.tensors.unpickle.tensor_info import StorageFacts, storage_facts, view_of

_LARGEST_MAP = 1 << 24


@dataclass(slots=True)
class StorageUsage:
    """One storage."""

    key: str
    nbytes: int
    reachable: int = 0
    is_lost: bool = False  # the file does not have its bytes
    is_unused: bool = False  # nothing refers to it
    is_whole: bool = False  # something else than a tensor refers to it
    views: list[View] = field(default_factory=list)

    @property
    def wasted(self) -> int:
        """Bytes that trimming takes away."""
        return self.nbytes - self.reachable


def take_accounts(file: PickledFile, description: Description) -> tuple[dict[str, StorageUsage], list[str]]:
    """All storages by key, in the order in which the pickle names them, and what is wrong with them."""
    taking = _Taking(file)
    for persistent in description.hooks.persistents:
        taking.storage(persistent)
    taking.tell_lost()
    taking.references(description)
    taking.unused()
    taking.accounts.pop(TRIPWIRE, None)  # belongs to the file, not to the object
    for account in taking.accounts.values():
        taking.lay_out(account)
    return taking.accounts, taking.trouble


class _Taking:
    def __init__(self, file: PickledFile) -> None:
        self.file = file
        self.accounts: dict[str, StorageUsage] = {}
        self.trouble: list[str] = []

    def storage(self, persistent: Persistent) -> None:
        facts = storage_facts(persistent)
        if facts is None:
            if not persistent.identity or persistent.identity[0] not in ("module", b"module"):
                self._complain(f"{self.file.where}: a persistent id that is not a storage's")
            return
        account = self.accounts.get(facts.key)
        if account is None:
            account = self.accounts[facts.key] = self._open(facts)
        if facts.nbytes != account.nbytes and not account.is_lost:
            account.is_whole = True
            self._complain(
                f"{self.file.source.name}: storage {facts.key[:40]} has {account.nbytes} bytes, and the pickle says "
                f"{facts.nbytes}"
            )
        account.is_whole |= facts.part

    def _open(self, facts: StorageFacts) -> StorageUsage:
        try:
            return StorageUsage(facts.key, self.file.nbytes(facts.key))
        except FormatError:
            return StorageUsage(facts.key, 0, is_lost=True)

    def tell_lost(self) -> None:
        lost = [key[:40] for key, account in self.accounts.items() if account.is_lost]
        if lost:
            some = ", ".join(lost[:3]) + (" ..." if len(lost) > 3 else "")
            self._complain(
                f"{self.file.source.name}: {len(lost)} of {len(self.accounts)} storages are not in the file ({some})"
            )

    def _complain(self, what: str) -> None:
        if what not in self.trouble:
            self.trouble.append(what)

    def _of(self, node: Any) -> StorageUsage | None:
        facts = storage_facts(node) if isinstance(node, Persistent) else None
        return self.accounts[facts.key] if facts is not None else None

    def references(self, description: Description) -> None:
        """Views are noted; anything else that refers to a storage makes it count in full."""
        references = find_references(description)
        for sighted in references.views:
            account = self._of(sighted.storage)
            view = view_of(sighted)
            if account is not None and view is not None:
                account.views.append(view)
            elif account is not None:
                account.is_whole = True
        for persistent in description.hooks.persistents:
            account = self._of(persistent)
            if account is not None and id(persistent) in references.otherwise:
                account.is_whole = True

    def unused(self) -> None:
        keys = self.file.keys()
        for key in keys:
            if key not in self.accounts:
                self.accounts[key] = StorageUsage(key, self.file.nbytes(key), is_unused=True)

    def lay_out(self, account: StorageUsage) -> None:
        if account.is_unused:
            return
        account.reachable = account.nbytes
        if account.is_whole or account.is_lost:
            return
        try:
            account.reachable = min(lay_out(account.views, account.nbytes).nbytes, account.nbytes)
        except ValueError as error:
            self._complain(f"{self.file.where}: storage {account.key[:40]}: {str(error)[:200]}")


def reached(view: View) -> int:
    """How many bytes a view sees, each counted once."""
    reach = reach_of(view.offset, view.itemsize, view.shape, view.strides)
    if reach is None:
        return 0
    once, extent = True, reach.run
    for count, stride in reversed(reach.dims):
        once &= stride >= extent
        extent += (count - 1) * stride
    visits = reach.run * prod(count for count, _ in reach.dims)
    return visits if once else _distinct(reach, extent, visits)


def _distinct(reach: Reach, extent: int, visits: int) -> int:
    """Counts on a map of the bytes, for views that cross their own traces."""
    granule = gcd(reach.run, *(stride for _, stride in reach.dims))
    if extent // granule > _LARGEST_MAP:
        return min(extent, visits)
    seen = np.zeros(extent // granule, bool)
    shape = *(count for count, _ in reach.dims), reach.run // granule
    strides = *(stride // granule for _, stride in reach.dims), 1
    np.ndarray(shape, bool, seen.data, 0, strides)[...] = True
    return granule * int(np.count_nonzero(seen))
