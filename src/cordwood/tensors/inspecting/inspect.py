"""``cw.inspect`` of a tensor file: what it holds, what it wastes, what it needs, and whether it is intact."""

import shlex
from pathlib import PurePath
from typing import Any

from cordwood.common.text import human
from cordwood.errors import FormatError
from cordwood.tensors.formats.cord_reader import CordFile, is_cord
from cordwood.tensors.formats.detect import PickledFile, TensorFile
from cordwood.tensors.formats.legacy_reader import LegacyFile
from cordwood.tensors.formats.pt_reader import PtFile
from cordwood.tensors.formats.safetensors_reader import SafetensorsFile
from cordwood.tensors.formats.truncated import CutSafetensorsFile, open_what_is_left
from cordwood.tensors.inspecting.checkpoint_kind import bound_to, kind_of
from cordwood.tensors.inspecting.checksums import Progress, check_archive, check_file
from cordwood.tensors.inspecting.importable import can_import
from cordwood.tensors.inspecting.result import Inspection, NeededGlobal, RecordRow, TensorRow
from cordwood.tensors.inspecting.storage_usage import StorageUsage, reached, take_accounts
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import ByteSource, open_source
from cordwood.tensors.io.zip_reader import STORED, Archive, is_zip
from cordwood.tensors.layout.sharing import Sharing
from cordwood.tensors.loading.peek import row_info
from cordwood.tensors.loading.select import description_of
from cordwood.tensors.unpickle.allowlist import known, user_allowed
from cordwood.tensors.unpickle.describe import Description
from cordwood.tensors.unpickle.tensor_info import TensorInfo, tensor_info, views_of
from cordwood.tensors.unpickle.tensor_names import Named, named_tensors

_FIRST_BYTES = 64
_MOST_CLASSES = 3
# Waste that is worth a word: a hundredth of the bytes, or a megabyte.
_SHARE, _MUCH = 100, 1_000_000


def inspect(path_or_file: Any, *, check: bool = True, progress: Progress | None = None) -> Inspection:
    """Tell what is in a tensor file of any format, without running anything of it.

    ::

        print(cw.inspect("model.pt"))
        wasteful = [row.name for row in cw.inspect("model.pt", check=False).tensors if row.wasted]

    Damage is told in `damaged`, and what is still readable is shown; only a file of which nothing can be read is a
    FormatError. `check` reads the whole file to compare it with its checksums; `progress` is then called with the bytes
    that are done and those there are.
    """
    with open_source(path_or_file) as source:
        try:
            opened = open_what_is_left(source, Allotment(None))
        except FormatError as error:
            return _unopened(source, error, check, progress)
        file = opened.file
        inspection = Inspection(source.name, _format(file, source), "", source.size, damaged=opened.lost)
        if isinstance(file, SafetensorsFile):
            _look_into_header(inspection, file)
        else:
            _look_into_pickle(inspection, file)
        if check:
            checked = check_file(file, source, progress)
            inspection.checks = checked.words
            inspection.damaged += [_blamed(what, inspection) for what in checked.damaged]
            for row in inspection.tensors:
                row.damaged |= not checked.keys.isdisjoint(row.storages)
        _advise(inspection, file, source)
        return inspection


def _format(file: TensorFile, source: ByteSource) -> str:
    word = file.kind
    if isinstance(file, PtFile) and any(file.coding(key) != "stored" for key in file.keys()):  # noqa: SIM118
        word = "pt compressed"
    return word if file.source is source else f"{word} inside a zip"


def _records(archive: Archive) -> list[RecordRow]:
    return [
        RecordRow(entry.name, entry.size, entry.stored, "stored" if entry.method == STORED else "deflate")
        for entry in archive.entries.values()
    ]


def _look_into_header(inspection: Inspection, file: SafetensorsFile) -> None:
    inspection.kind = "state_dict"
    inspection.metadata = {str(key): str(value)[:1000] for key, value in file.metadata.items()}
    for row in file.rows.values():
        info = row_info(row)
        inspection.tensors.append(_row(info, row.nbytes, row.nbytes, row.nbytes, 0, "raw"))
        inspection.in_memory += row.nbytes
    inspection.reachable = inspection.in_file = inspection.in_memory
    if isinstance(file, CutSafetensorsFile):
        for name, (dtype, shape) in file.outlines.items():
            row_of_lost = _row(TensorInfo(name, shape, dtype), 0, 0, 0, 0, "")
            row_of_lost.damaged = True
            inspection.tensors.append(row_of_lost)


def _look_into_pickle(inspection: Inspection, file: PickledFile) -> None:
    if isinstance(file, PtFile | CordFile):
        inspection.records = _records(file.archive)
    try:
        description = description_of(file)
        accounts, trouble = take_accounts(file, description)
        inspection.damaged += trouble
        inspection.globals = _globals(description)
        inspection.kind = kind_of(description.root)
        inspection.bound_to = bound_to(description.root)
        named = named_tensors(description.root, file.where, len(file.pickle))
    except FormatError as error:
        inspection.kind = inspection.kind or "cannot be told"
        inspection.damaged.append(str(error))
        return
    inspection.in_memory = sum(account.nbytes for account in accounts.values())
    inspection.in_file = sum(file.stored(account.key) for account in accounts.values() if not account.is_lost)
    inspection.reachable = sum(account.reachable for account in accounts.values())
    inspection.tensors = _rows(file, named, accounts, inspection.damaged)


def _rows(
    file: PickledFile, named: list[Named], accounts: dict[str, StorageUsage], damaged: list[str]
) -> list[TensorRow]:
    views = [list(views_of(each.node)) for each in named]
    sharing = Sharing(views)
    codings: dict[str, str] = {}
    rows: list[TensorRow] = []
    for index, each in enumerate(named):
        info = tensor_info(each)
        mine = [accounts[key] for key in info.storages if key in accounts]
        row = _row(
            info,
            sum(account.nbytes for account in mine),
            sum(file.stored(account.key) for account in mine if not account.is_lost),
            sum(reached(view) for key, view in dict.fromkeys(views[index]) if not accounts[key].is_lost),
            sum(account.wasted for account in mine),
            ", ".join(dict.fromkeys(_coding(file, account, codings, damaged) for account in mine)),
        )
        row.damaged = any(account.is_lost for account in mine)
        if not views[index] and not row.damaged:
            # Bytes that sizes and strides do not tell, as those of several items in a byte.
            row.reachable = info.nbytes
        row._place = (index, rows, sharing)
        rows.append(row)
    return rows


def _coding(file: PickledFile, account: StorageUsage, codings: dict[str, str], damaged: list[str]) -> str:
    if account.is_lost:
        return ""
    if account.key not in codings:
        try:
            codings[account.key] = file.coding(account.key)
        except FormatError as error:
            codings[account.key] = "?"
            damaged.append(f"{file.source.name}: storage {account.key[:40]}: {error}")
    return codings[account.key]


def _row(info: TensorInfo, in_memory: int, in_file: int, reachable: int, wasted: int, codec: str) -> TensorRow:
    return TensorRow(
        info.name,
        info.shape,
        info.dtype,
        in_memory,
        in_file,
        reachable,
        wasted,
        codec,
        info.contiguous,
        info.memory_format,
        info.requires_grad,
        info.location,
        info.layout,
        info.kind,
        info.storages,
    )


def _globals(description: Description) -> list[NeededGlobal]:
    listed, trusted = known(), user_allowed()
    return [
        NeededGlobal(
            each.module, each.name, str(each) in listed or str(each) in trusted, can_import(each.module, each.name)
        )
        for each in description.hooks.globals
    ]


def _blamed(what: str, inspection: Inspection) -> str:
    """Damage of a record, with the tensors that lie in it."""
    for row in inspection.tensors:
        for key in row.storages:
            if f"/data/{key}:" in what or f" data/{key}." in what or f"/data/{key}' " in what:
                return f"{what}; it holds {row.name or 'the tensor'}"
    return what


def _advise(inspection: Inspection, file: TensorFile, source: ByteSource) -> None:
    advice = inspection.advice
    path = shlex.quote(source.path) if source.path is not None else "FILE"
    suffix = PurePath(source.name).suffix if file.source is source else ".pt"
    wasted, in_memory = inspection.wasted, inspection.in_memory
    if wasted and (wasted * _SHARE >= in_memory or wasted >= _MUCH):
        small = _beside(source, "small", suffix or ".pt")
        advice.append(f"{human(wasted)} of {human(in_memory)} is unreachable: cordwood trim {path} -o {small}")
    if inspection.bound_to:
        classes = ", ".join(inspection.bound_to[:_MOST_CLASSES])
        more = len(inspection.bound_to) - _MOST_CLASSES
        advice.append(f"bound to {classes}{f' and {more} more' if more > 0 else ''}; save state_dict() instead")
    refused = sum(not needed.safe for needed in inspection.globals)
    if refused:
        advice.append(
            f"load refuses {refused} name{'s' * (refused != 1)} that {'are' if refused != 1 else 'is'} not known to be "
            "safe; read the tensors alone with cw.peek, or allow with torch.serialization.add_safe_globals"
        )
    if inspection.format.startswith("pt compressed"):
        advice.append("compressed records cannot be mapped (mmap=True)")
    if isinstance(file, LegacyFile) and not inspection.damaged:
        new = _beside(source, "new", ".pt")
        advice.append(f"in the format from before torch 1.6, which cannot be mapped: cordwood trim {path} -o {new}")
    if inspection.damaged:
        advice.append("damaged: tensors that are whole can still be read one by one, with cw.peek(path)[name]")


def _beside(source: ByteSource, word: str, suffix: str) -> str:
    """Where a command may write, named after the file: the same advice for several files is to keep all results."""
    if source.path is None:
        return f"{word}{suffix}"
    path = PurePath(source.path)
    return shlex.quote(str(path.with_name(f"{path.stem}-{word}{suffix}")))


def _unopened(source: ByteSource, error: FormatError, check: bool, progress: Progress | None) -> Inspection:
    """An archive that holds no tensors that we could list, but records."""
    first = bytes(source.read(0, min(source.size, _FIRST_BYTES)))
    if not is_zip(first):
        raise error
    damaged = []
    try:
        archive = Archive(source)
    except FormatError as reason:
        archive = Archive.recover(source)
        damaged.append(str(reason))
    names = [name.partition("/")[2] for name in archive.entries]
    if "constants.pkl" in names:
        word, kind = "torchscript", "a program with its weights"
    elif is_cord(first) or "data.pkl" in names:
        word, kind = "cord" if is_cord(first) else "pt", "cannot be told"
        damaged.append(str(error))
    else:
        raise error
    found = Inspection(source.name, word, kind, source.size, records=_records(archive), damaged=damaged)
    if check:
        checked = check_archive(archive, "", progress)
        found.checks = checked.words
        found.damaged += checked.damaged
    if word == "torchscript":
        found.advice.append("a TorchScript program, which torch.jit.load loads; trim leaves it alone")
    return found
