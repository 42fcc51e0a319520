"""The result of inspecting a tensor file: fields for programs, a table for people.

::

    inspection = cw.inspect("model.pt")
    inspection.wasted, inspection.in_memory     # bytes
    [row.name for row in inspection.tensors if row.wasted]
    print(inspection)
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from cordwood.common.arguments import checks_keywords
from cordwood.common.html import Printed
from cordwood.common.tables import terminal_width
from cordwood.tensors.layout.sharing import Sharing
from cordwood.tensors.unpickle.tensor_info import Shape

_MOST_NAMES = 100  # of partners in a dict for JSON: a file can tie all of its tensors to each other


@dataclass(slots=True)
class TensorRow:
    """One tensor.

    `in_memory` is the size of the tensor's storage when it is loaded (of all its storages, where it has several),
    `in_file` the size of that storage in the file, `reachable` the number of bytes that this tensor sees, and `wasted`
    the number of bytes of the storage that no tensor sees. Tensors of one storage all have that storage's waste.
    """

    name: str
    shape: Shape | None
    dtype: torch.dtype | None
    in_memory: int
    in_file: int
    reachable: int
    wasted: int
    codec: str
    contiguous: bool
    memory_format: str
    requires_grad: bool
    location: str
    layout: str
    kind: str
    storages: tuple[str, ...]
    damaged: bool = False
    _place: "tuple[int, list[TensorRow], Sharing] | None" = field(default=None, repr=False, compare=False)

    @property
    def shared_with(self) -> list[str]:
        """The names of the tensors that have bytes in common with this one."""
        return self.first_partners(None)

    @property
    def partner_count(self) -> int:
        """How many they are; quickly, since in some files all tensors share with all others."""
        return 0 if self._place is None else len(self._place[2].group(self._place[0])) - 1

    def first_partners(self, count: int | None) -> list[str]:
        """The first few of `shared_with`."""
        if self._place is None:
            return []
        index, rows, sharing = self._place
        group = sharing.group(index)
        if count is not None:
            group = group[: count + 1]
        return [rows[other].name for other in group if other != index][:count]

    def to_dict(self) -> dict[str, Any]:
        """For JSON; of more than a hundred partners only the first are named."""
        return {
            "name": self.name,
            "shape": None if self.shape is None else list(self.shape),
            "dtype": None if self.dtype is None else str(self.dtype).removeprefix("torch."),
            "in_memory": self.in_memory,
            "in_file": self.in_file,
            "reachable": self.reachable,
            "wasted": self.wasted,
            "shared_with": self.first_partners(_MOST_NAMES),
            "shared_with_count": self.partner_count,
            "codec": self.codec,
            "contiguous": self.contiguous,
            "memory_format": self.memory_format,
            "requires_grad": self.requires_grad,
            "location": self.location,
            "layout": self.layout,
            "kind": self.kind,
            "storages": list(self.storages),
            "damaged": self.damaged,
        }


@dataclass(frozen=True, slots=True)
class NeededGlobal:
    """A name that the file's pickle imports when it is loaded.

    `safe`: it is on the list of what `load` rebuilds without running code of the file. `imports`: it can be found here;
    nothing was imported to find out.
    """

    module: str
    name: str
    safe: bool
    imports: bool

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"name": str(self), "safe": self.safe, "imports": self.imports}


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One entry of an archive."""

    name: str
    size: int
    in_file: int
    codec: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"name": self.name, "size": self.size, "in_file": self.in_file, "codec": self.codec}


@dataclass(slots=True, repr=False)
class Inspection(Printed):
    """What is in a file. Made by `inspect`; prints as a table.

    ::

        inspection = cw.inspect("x.pt")
        print(inspection)
        for row in inspection.tensors:
            print(row.name, row.shape, row.wasted, row.shared_with)

    `in_memory`, `in_file`, `reachable` and `wasted` count every storage once. `damaged` says what is wrong with the
    file, `advice` what to do about it and about waste, one line per item. `checks` says what the checksums showed.
    """

    path: str
    format: str
    kind: str
    file_size: int
    tensors: list[TensorRow] = field(default_factory=list)
    in_memory: int = 0
    in_file: int = 0
    reachable: int = 0
    globals: list[NeededGlobal] = field(default_factory=list)
    records: list[RecordRow] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    bound_to: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    checks: str = "not checked"

    @property
    def wasted(self) -> int:
        """Bytes of all storages that no tensor reaches."""
        return self.in_memory - self.reachable

    def __str__(self) -> str:
        return self.table()

    @checks_keywords("Inspection.table")
    def table(self, *, max_rows: int | None = 60, width: int | None = None) -> str:
        """The table that `print` shows; `max_rows=None` shows every row. It fits the terminal, or `width`."""
        from cordwood.tensors.inspecting.text import format_inspection

        return format_inspection(self, max_rows, width or terminal_width())

    def _repr_html_(self) -> str:
        from cordwood.tensors.inspecting.html import format_html

        return format_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "path": self.path,
            "format": self.format,
            "kind": self.kind,
            "file_size": self.file_size,
            "in_memory": self.in_memory,
            "in_file": self.in_file,
            "reachable": self.reachable,
            "wasted": self.wasted,
            "tensors": [row.to_dict() for row in self.tensors],
            "globals": [needed.to_dict() for needed in self.globals],
            "records": [record.to_dict() for record in self.records],
            "metadata": self.metadata,
            "bound_to": self.bound_to,
            "damaged": self.damaged,
            "advice": self.advice,
            "checks": self.checks,
        }
