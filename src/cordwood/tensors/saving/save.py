"""``cw.save``: writes one object to one file: only reachable bytes, with all sharing preserved."""

import io
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, Literal, get_args, overload

from cordwood.codecs import GOALS, Goal
from cordwood.common.arguments import checks_keywords, one_of
from cordwood.common.atomic_file import replacing
from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.tensors.content.file_content import Content
from cordwood.tensors.formats.cord_writer import write_cord
from cordwood.tensors.formats.pt_writer import write_legacy, write_pt
from cordwood.tensors.formats.suffixes import format_of, refusal
from cordwood.tensors.saving.background import Saving, run_in_turn, wait_for_turn
from cordwood.tensors.saving.collect import collect, no_garbage_collection
from cordwood.tensors.unpickle.allowlist import known, user_allowed

Format = Literal["pt", "cord", "pt-legacy"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
_ZIPPED = (".pt.zip", ".pth.zip")
_PIECE = 1 << 20
_QUICK = 64 << 20  # so many bytes are written in less than a second
_MOST_NAMES = 5


@overload
def save(
    obj: Any,
    path_or_file: Any,
    *,
    format: Format | None = None,
    compress: bool | None = None,
    goal: Goal = "balanced",
    durable: bool | None = None,
    background: Literal[False] = False,
) -> None: ...


@overload
def save(
    obj: Any,
    path_or_file: Any,
    *,
    format: Format | None = None,
    compress: bool | None = None,
    goal: Goal = "balanced",
    durable: bool | None = None,
    background: Literal[True],
) -> Saving: ...


@overload
def save(
    obj: Any,
    path_or_file: Any,
    *,
    format: Format | None = None,
    compress: bool | None = None,
    goal: Goal = "balanced",
    durable: bool | None = None,
    background: bool,
) -> Saving | None: ...


@checks_keywords("cw.save")
def save(
    obj: Any,
    path_or_file: Any,
    *,
    format: Format | None = None,
    compress: bool | None = None,
    goal: Goal = "balanced",
    durable: bool | None = None,
    background: bool = False,
) -> Saving | None:
    """Save an object: the bytes its tensors reach, each once, and nothing else.

    ::

        cw.save(batch[3], "one.pt")                # one slice's bytes; plain torch.load reads the file
        cw.save(model.state_dict(), "model.cord")  # smaller still, with checksums and partial loading
        cw.save(checkpoint, "last.pt", durable=True)
        saving = cw.save(checkpoint, "last.pt", background=True)   # training goes on; saving.result() waits

    What overlaps in memory overlaps after loading; tied weights stay tied, also under two dtypes. The format follows
    the suffix: ``.cord`` is Cordwood's own, ``.pt.zip`` a `.pt` file inside a zip archive, everything else torch's, but
    a suffix of somebody else's format, such as ``.npy``, is refused; `format` (``"pt"``, ``"cord"``, ``"pt-legacy"``)
    overrides it. ``compress=True`` deflates the records of a `.pt`
    file where that saves a tenth; `goal` (``"small"``, ``"balanced"``, ``"fast"``, ``"raw"``) is for `.cord` files.

    A file appears whole or not at all: it is written aside and renamed, and an older file survives whatever happens.
    Before the new file replaces an older one, its data are on the disk, so a power loss leaves one of the two.
    ``durable=True`` waits for the disk also when there is no older file, ``durable=False`` never waits.
    ``background=True`` copies the reachable bytes, returns at once, and
    writes in a thread.
    """
    target = Target(path_or_file, format, compress, goal)
    if durable is not None and not isinstance(durable, bool):
        raise UsageError(f"durable must be None, True or False, got {brief(durable)}")
    if durable and target.path is None:
        raise UsageError("durable=True needs a path: how to make a file object durable is known to its owner only")
    if not background:
        wait_for_turn(lambda: target.identity)
    with no_garbage_collection():
        content = collect(obj, legacy=target.format == "pt-legacy", tripwire=target.compress)
        _warn_of_refusal(content.globals)
        if not background and content.nbytes < _QUICK:
            target.write(content, durable)
            del content  # before the garbage collector looks at the objects of thousands of tensors
            return None
    if background:
        content.snapshot()
        return run_in_turn(target.identity, target.name, lambda: target.write(content, durable))
    target.write(content, durable)
    return None


def _warn_of_refusal(saved_by_name: list[str]) -> None:
    """Names in a file that loading it will refuse are better known while the object is there."""
    names = dict.fromkeys(saved_by_name)
    listed, trusted = known(), user_allowed()
    refused = [name for name in names if name not in listed and name not in trusted]
    if refused:
        shown = ", ".join(refused[:_MOST_NAMES]) + f" and {len(refused) - _MOST_NAMES} more" * (
            len(refused) > _MOST_NAMES
        )
        warnings.warn(
            f"cw.load will refuse this file unless it is given weights_only=False, because it refers to {shown}. Save "
            "tensors and plain containers (state_dict()), or allow these names with "
            "torch.serialization.add_safe_globals before loading.",
            stacklevel=4,
        )


class Target:
    """Where to and how a parcel is written."""

    def __init__(self, path_or_file: Any, format: str | None, compress: bool | None, goal: Goal = "balanced") -> None:
        is_path = isinstance(path_or_file, str | bytes | os.PathLike)
        self.file = None if is_path else path_or_file
        if not is_path and not hasattr(self.file, "write"):
            raise UsageError(
                f"a {type(path_or_file).__name__} is neither a path nor a file opened for writing; give one of them"
            )
        if isinstance(self.file, io.TextIOBase):
            raise UsageError("the file is opened for text; open it with 'wb'")
        self.path = Path(os.fsdecode(path_or_file)) if is_path else None
        name = self.path.name if self.path is not None else ""
        self.zipped = name.lower().endswith(_ZIPPED) and format in (None, "pt")
        self.format = format or self._by_suffix(name)
        self.goal = goal
        self.compress = bool(compress)
        self._check(compress)

    @staticmethod
    def _by_suffix(name: str) -> str:
        if (why := refusal(name)) is not None:
            raise UsageError(f"{why} (format='pt' writes torch's format under this name all the same)")
        return format_of(name)

    def _check(self, compress: bool | None) -> None:
        one_of("format", self.format, FORMATS)
        one_of("goal", self.goal, GOALS)
        if self.format != "cord" and self.goal != "balanced":
            raise UsageError(
                f"goal={self.goal!r} is for .cord files, and this is a {self.format} file: use compress=True"
            )
        if self.format == "cord" and compress is not None:
            raise UsageError(
                "compress is for .pt files; a .cord file is compressed by its goal (goal='raw': not at all)"
            )
        if self.format == "pt-legacy" and compress:
            raise UsageError("a file of the format before zip cannot be compressed; use format='pt'")
        if self.zipped and compress:
            raise UsageError("a .pt.zip is compressed by the archive around it; name it .pt to compress its records")

    @property
    def name(self) -> str:
        """For messages."""
        return str(self.path) if self.path is not None else f"<{type(self.file).__name__}>"

    @property
    def identity(self) -> str:
        """Two saves with the same identity must not run at once."""
        return os.path.realpath(self.path) if self.path is not None else f"file {id(self.file)}"

    def write(self, content: Content, durable: bool | None) -> None:
        """Write the file, whole or not at all."""
        with self.opened(durable=durable) as file:
            self.write_to(file, content)

    def write_to(self, file: Any, content: Content) -> None:
        """Write to a file that was opened."""
        if self.format == "cord":
            write_cord(content, file.write, self.goal)
        elif self.format == "pt-legacy":
            write_legacy(content, file.write)
        elif self.zipped:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as outer:
                inside = zipfile.ZipInfo(Path(self.name).name[: -len(".zip")])
                inside.compress_type = zipfile.ZIP_DEFLATED
                with outer.open(inside, "w", force_zip64=True) as inner:
                    write_pt(content, _in_pieces(inner.write), self._prefix(".zip"))
        else:
            write_pt(content, file.write, self._prefix(""), compress=self.compress)

    def _prefix(self, outer: str) -> str:
        """The archive's name inside: as torch does, the file's without its suffix."""
        if self.path is None:
            return "archive"
        return Path(self.path.name.removesuffix(outer)).stem or "archive"

    def opened(self, *, durable: bool | None) -> AbstractContextManager[Any]:
        """The file to write to, as a context."""
        if self.path is not None:
            return replacing(self.path, durable=durable)
        return _flushed(self.file)


def _in_pieces(write: Callable[[Any], Any]) -> Callable[[Any], None]:
    """zipfile holds the deflated form of whatever it is given at once."""

    def write_pieces(data: Any) -> None:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _PIECE):
            write(view[start : start + _PIECE])

    return write_pieces


@contextmanager
def _flushed(file: Any) -> Iterator["_Whole"]:
    """A file object to write to; what it gathered is handed to the system, so that a reader of its path sees it."""
    yield _Whole(file.write)
    if hasattr(file, "flush"):
        file.flush()


class _Whole:
    """Writes to a file object until everything is written: raw files may take less."""

    def __init__(self, write: Callable[[Any], Any]) -> None:
        self._write = write

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        total = len(rest)
        while len(rest):
            taken = self._write(rest)
            rest = rest[taken if isinstance(taken, int) else len(rest) :]
        return total

    def flush(self) -> None:
        """Nothing is held back here."""
