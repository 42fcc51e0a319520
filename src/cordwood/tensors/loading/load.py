"""``cw.load``: reads one object from a file of any supported format, without running code of the file."""

import io
import os
import pickle
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.storage import TypedStorage

from cordwood.common.arguments import checks_keywords
from cordwood.errors import FormatError, Reason, UsageError
from cordwood.tensors.content.dtypes import storage_dtypes
from cordwood.tensors.formats.detect import PickledFile, open_file
from cordwood.tensors.formats.legacy_reader import LegacyFile
from cordwood.tensors.formats.safetensors_reader import SafetensorsFile
from cordwood.tensors.formats.truncated import open_what_is_left
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import open_source
from cordwood.tensors.loading.select import Selection, Wanted
from cordwood.tensors.loading.storages import (
    Storages,
    default_mmap,
    is_fake,
    is_meta,
    located,
    map_whole,
    restorer,
    without_data,
)
from cordwood.tensors.unpickle.allowlist import Allowed, StorageKind
from cordwood.tensors.unpickle.machine import Machine
from cordwood.tensors.unpickle.renamed import moved


@checks_keywords("cw.load")
def load(
    path_or_file: Any,
    *,
    map_location: Any = None,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    only: str | Iterable[str] | None = None,
    limit: int | None = None,
) -> Any:
    """Load what a file holds; the format is told by the content.

    ::

        model.load_state_dict(cw.load("model.cord"))
        cw.load("old.pt", map_location="cpu")
        cw.load("x.pt.zip")                              # a .pt file that was zipped again, read in memory
        cw.load("big.pt", only="model.layer4.*")         # {name: tensor}, and only their bytes are read

    Reads `.cord`, `.pt` (old, new, compressed, zipped again) and `.safetensors` files, from paths and file objects.
    No code of the file runs: what is not on torch's list of safe names is refused, with its name and how to allow it;
    ``weights_only=False`` trusts the file with everything. The environment variables that overrule ``torch.load``
    (``TORCH_FORCE_WEIGHTS_ONLY_LOAD=1``, ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1``) overrule this function, too.
    `map_location` is torch.load's. Under a ``FakeTensorMode`` the tensors are fake, and no data are read. Raw records
    of large `.cord` and `.safetensors` files are mapped into memory instead of read; ``mmap=True`` or ``False``
    decides for any format.

    `only` is one pattern or several: ``*`` stands for anything, dots included. `limit` is how many bytes may be
    reserved, the machine's memory by default.
    """
    is_safe = _loads_safely(weights_only)
    wanted = _patterns(only)
    allotment = Allotment(limit)
    start = _position(path_or_file)
    with open_source(path_or_file) as source, located(map_location), _enough_memory(source.name):
        # Of a file that lost its end, what is asked for by name may still be there.
        file = open_file(source, allotment) if wanted is None else open_what_is_left(source, allotment).file
        if isinstance(file, SafetensorsFile):
            return _load_safetensors(file, map_location, mmap, wanted, allotment)
        if isinstance(file, LegacyFile) and file.source is source:
            _move_on(path_or_file, start, file)
        storages = Storages(file, map_location, mmap, allotment)
        if wanted is not None:
            return Selection(file, storages).load(wanted)
        storages.prefetch(file.keys())
        if is_safe:
            room = allotment.left
            hooks = Allowed(storages.typed, file.source.name, size=len(file.pickle), room=room)
            if weights_only is False:
                hooks.otherwise = "; TORCH_FORCE_WEIGHTS_ONLY_LOAD in the environment overrules weights_only=False"
            machine = Machine(file.pickle, hooks, file.where, start=file.start, room=room)
            loaded = machine.run()
            if file.kind == "cord" and machine.position != len(file.pickle):
                raise FormatError(
                    f"{file.where}: {len(file.pickle) - machine.position} bytes behind the end of the pickle"
                )
            return loaded
        return _Trusting(file, storages).load()


_TRUE = ("1", "y", "yes", "true")


def _loads_safely(weights_only: bool | None) -> bool:
    """What the caller asks for, unless the environment overrules it: as torch.load decides."""
    force, force_not = (
        os.environ.get(name, "0").lower() in _TRUE
        for name in ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    )
    if force and force_not:
        raise UsageError(
            "TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD are both set in the environment; "
            "unset one of them"
        )
    if force_not and weights_only is None:
        warnings.warn(
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set in the environment and weights_only is not given, so cw.load "
            "runs code from the file",
            UserWarning,
            stacklevel=4,
        )
        return False
    return force or weights_only is None or bool(weights_only)


@contextmanager
def _enough_memory(name: str) -> Iterator[None]:
    """Sizes that come from a file are no reason to end a program that catches what is wrong with files."""
    try:
        yield
    except MemoryError as error:
        raise FormatError(
            f"{name}: {error or 'what it holds'}; the machine has less memory than the file needs", Reason.LIMIT
        ) from error


def _patterns(only: str | Iterable[str] | None) -> Wanted | None:
    """Which names are wanted; None: all there is."""
    if only is None:
        return None
    patterns = [only] if isinstance(only, str) or not isinstance(only, Iterable) else list(only)
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise UsageError(f"only={only!r:.100} is neither a pattern nor a list of patterns")
    return Wanted(patterns)


def _move_on(given: Any, start: int | None, file: LegacyFile) -> None:
    """Leave a file object behind what was read: files of the old format may hold one object after the other."""
    if start is not None:
        given.seek(start + file.end)


def _position(given: Any) -> int | None:
    """Where a file object stands, if it is one and can tell."""
    try:
        return int(given.tell()) if given.seekable() else None
    except (AttributeError, OSError, ValueError):
        return None


def _load_safetensors(
    file: SafetensorsFile,
    map_location: Any,
    mmap: bool | None,
    wanted: Wanted | None,
    allotment: Allotment,
) -> dict[str, torch.Tensor]:
    names = [name for name in file.rows if wanted is None or wanted(name)]
    if wanted is not None:
        wanted.check(file.source.name, file.rows)
    meta = is_fake() or is_meta(map_location)
    mapped = default_mmap(file.kind, file.source) if mmap is None else mmap
    whole = map_whole(file.source) if mapped and not meta else None
    storages = {} if meta else file.read(names, allotment, whole)
    restore = restorer(map_location)
    found = {}
    for name in names:
        row = file.rows[name]
        if meta:
            found[name] = without_data(row, map_location)
            continue
        storage = restore(storages[name], "cpu")
        found[name] = torch.empty(0, dtype=row.dtype, device=storage.device).set_(storage, 0, row.shape, row.strides)
    return found


class _Trusting(pickle.Unpickler):
    """Python's own unpickler, for files that the caller trusts with everything."""

    def __init__(self, file: PickledFile, storages: Storages) -> None:
        data = io.BytesIO(file.pickle)
        data.seek(file.start)
        super().__init__(data, encoding="utf-8")
        self._file = file
        self._storages = storages
        self._kinds = storage_dtypes()

    def find_class(self, module: str, name: str) -> Any:
        if name in self._kinds and module.split(".")[0] == "torch":
            return StorageKind(name, self._kinds[name])
        return super().find_class(*moved(module, name))

    def persistent_load(self, identity: Any) -> Any:
        if isinstance(identity, tuple) and identity and identity[0] in ("module", b"module"):
            return identity[1]  # a class with its source, in files of the old format
        storage: TypedStorage = self._storages.typed(identity)
        return storage

    def load(self) -> Any:
        try:
            return super().load()
        except (pickle.UnpicklingError, EOFError) as error:
            raise FormatError(f"{self._file.where}: {error}; the file is damaged") from error
        finally:
            torch._utils._validate_loaded_sparse_tensors()
