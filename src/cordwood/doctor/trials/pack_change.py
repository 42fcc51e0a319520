"""The command and the lines of code that make training read a packed store; they run as they stand.

    change = change_for(seen, numbers, digests, seconds=10)
    change.command          # "cordwood pack train:make_dataset train.cordwood", or None
    print(change.text)      # the command, and the lines to put in place of those that make the loader

A command is only shown after another process has imported the same name and got the same samples from it. Where there
is none (a dataset that is made with arguments, a script that trains when it is imported), Python lines do the packing.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from cordwood.doctor.code.loader_call import LoaderCall, find_loader_call, iterated_name
from cordwood.doctor.evidence.evidence import LoaderSeen
from cordwood.doctor.evidence.findings import Abstain, CodeLine

IMPORT = "import cordwood as cw"
_STORE = "train"
_NO_COMMAND = "# only this script can make its dataset: so it packs by itself, by no `cordwood pack` command"
_ONCE = "  # works the first time; later on it finds everything done"
_ASK = """
import json, sys
from cordwood.doctor.measure.determinism import digest
from cordwood.sources.importing import made
dataset = made(sys.argv[1], "source")
found = {"length": len(dataset), "digests": [digest(dataset[int(number)]) for number in sys.argv[2:]]}
print("\\n" + json.dumps(found))
"""


@dataclass(frozen=True)
class KeptLoading:
    """The part of loading that stays as it is: what is packed, and what the Loader does to each sample."""

    lines: tuple[str, ...] = ()  # to run before packing; ``{dataset}`` stands for the dataset
    packed: str = "{dataset}"
    options: tuple[str, ...] = ()  # further ones of the Loader


@dataclass(frozen=True)
class PackChange:
    """A change of the user's script."""

    store: str
    command: str | None  # for a shell
    lines: tuple[str, ...]  # of Python
    file: str | None
    first_line: int  # the lines go in place of these; before the first one if last_line is smaller
    last_line: int

    @property
    def text(self) -> str:
        """All of it, as a report shows it."""
        first = [self.command, ""] if self.command else [_NO_COMMAND]
        return "\n".join([*first, f"# {self._where}:", *self.lines])

    @property
    def _where(self) -> str:
        name = Path(self.file).name if self.file else "the script"
        if self.last_line < self.first_line:
            return (
                f"in {name}, before line {self.first_line}" if self.file else "in the script, where the loader is made"
            )
        which = (
            f"line {self.first_line}"
            if self.first_line == self.last_line
            else f"lines {self.first_line}-{self.last_line}"
        )
        return f"in {name}, in place of {which}"


def change_for(
    seen: LoaderSeen, numbers: Sequence[int], digests: Sequence[str], *, kept: KeptLoading | None = None, seconds: float
) -> PackChange:
    """The change that lets a loader read a store of the same samples.

    `numbers` and `digests` are samples to compare with, `seconds` is what looking for a command may take.
    """
    call = find_loader_call(seen.made_at)
    place = seen.made_at or seen.place
    store = _free_name()
    command = None
    if kept is None and call is not None:
        command = _command(call, store, len(seen.loader.dataset), numbers, digests, seconds)
    name = iterated_name(seen.place) or "loader"
    dataset = call.dataset if call is not None else f"{name}.dataset"
    kept = kept or KeptLoading()
    loader = f'cw.Loader(cw.open("{store}"), {", ".join([*_options(seen.loader, call), *kept.options])})'
    loader = loader.replace("{dataset}", dataset)
    packing = [
        line.replace("{dataset}", dataset) for line in (*kept.lines, f'cw.pack({kept.packed}, "{store}"){_ONCE}')
    ]
    statement = call.with_call(loader) if call is not None else f"{name} = {loader}"
    lines = [*([] if command else packing), *statement.split("\n")]
    first, last = (call.first_line, call.last_line) if call is not None else (_line(seen.place), _line(seen.place) - 1)
    file = call.file if call is not None else seen.place.file if seen.place else place.file if place else None
    return PackChange(store, command, (IMPORT, *lines), file, first, last)


def _line(place: CodeLine | None) -> int:
    return place.line if place is not None else 1


def _free_name() -> str:
    """A store that does not exist yet, so that nobody opens another one."""
    names = (f"{_STORE}{number}.cordwood" for number in ("", *(f"-{count}" for count in range(2, 100))))
    return next((name for name in names if not Path(name).exists()), f"{_STORE}.cordwood")


# ---- the loader ------------------------------------------------------------------------------------------------------


def check_order(loader: Any) -> None:
    """Abstain where samples are chosen in a way that a Loader has no option for."""
    if loader.batch_sampler is None or loader.batch_size is None:
        raise Abstain(
            "the DataLoader makes no batches itself, or has a batch_sampler of its own: no packed loader to try"
        )


def _options(loader: Any, call: LoaderCall | None) -> list[str]:
    written = call.arguments if call is not None else {}
    options = [f"batch_size={written.get('batch_size', loader.batch_size)}"]
    options.extend(_order(loader, written, call is None or call.is_complete))
    if loader.drop_last:
        options.append(f"drop_last={written.get('drop_last', True)}")
    if "collate_fn" in written and written["collate_fn"] != "None":
        options.append(f"collate={written['collate_fn']}")
    elif not collates_as_usual(loader):
        raise Abstain("the DataLoader has a collate_fn that its call does not show, so no change can be written down")
    return options


def _order(loader: Any, written: dict[str, str], complete: bool) -> list[str]:
    sampler = loader.sampler
    if isinstance(sampler, DistributedSampler):  # the Loader shares samples out among the ranks itself
        return ["shuffle=True"] if sampler.shuffle else []
    if isinstance(sampler, SequentialSampler):
        return []
    if is_plain_shuffle(loader):
        return [f"shuffle={written['shuffle'] if complete and 'shuffle' in written else True}"]
    if "sampler" in written:
        return [f"sampler={written['sampler']}"]
    raise Abstain("the DataLoader has a sampler that its call does not show, so no change can be written down")


def is_plain_shuffle(loader: Any) -> bool:
    """Whether every epoch has each sample once, in random order."""
    sampler = loader.sampler
    return type(sampler) is RandomSampler and not sampler.replacement and len(sampler) == len(loader.dataset)


def collates_as_usual(loader: Any) -> bool:
    """Whether batches are made by torch's own function."""
    from torch.utils.data import default_collate

    return loader.collate_fn is default_collate


# ---- the command -----------------------------------------------------------------------------------------------------


def _command(
    call: LoaderCall, store: str, length: int, numbers: Sequence[int], digests: Sequence[str], seconds: float
) -> str | None:
    """The command that packs the same dataset, tried in another process; None if there is none."""
    if not call.can_be_imported:
        return None
    module, folder = _module_of(Path(call.file))
    if module is None:
        return None
    wanted = {"length": length, "digests": list(digests)}
    for maker in call.makers:
        if _asked(f"{module}:{maker}", folder, numbers, seconds) == wanted:
            path = f"PYTHONPATH={shlex.quote(folder)} " if folder else ""
            return f"{path}cordwood pack {module}:{maker} {store}"
    return None


def _module_of(file: Path) -> tuple[str | None, str]:
    """The name that a file is imported by, and the folder to look for it in, empty if that is the current one."""
    parts = [file.stem]
    folder = file.absolute().parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        parts.insert(0, folder.name)
        folder = folder.parent
    if not all(part.isidentifier() for part in parts):
        return None, ""
    here = Path.cwd()
    if folder == here:
        return ".".join(parts), ""
    return ".".join(parts), str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def _asked(spec: str, folder: str, numbers: Sequence[int], seconds: float) -> Any:
    """What a new process gets from ``module:name``; None if it fails, or takes too long."""
    environment = dict(os.environ)
    if folder:
        environment["PYTHONPATH"] = folder
    command = [sys.executable, "-c", _ASK, spec, *map(str, numbers)]
    try:
        done = subprocess.run(  # noqa: S603 - our own Python, with a name that was read from the user's script
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return json.loads(done.stdout.rstrip().rpartition("\n")[2])
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
