"""The user's own DataLoader call, changed so that it indexes whole batches.

    whole_batches(seen, Setting(0, None))
    # in train.py, in place of line 7:
    # from torch.utils.data import BatchSampler, RandomSampler
    # loader = DataLoader(ds, sampler=BatchSampler(RandomSampler(ds), batch_size=300, drop_last=True), batch_size=None)

Order, `drop_last`, generators and everything else that the call says stay as they are.
"""

from pathlib import Path
from typing import Any

from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from cordwood.doctor.code.loader_call import LoaderCall, find_loader_call, iterated_name
from cordwood.doctor.evidence.evidence import LoaderSeen
from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.trials.loader import Setting

_REPLACED = frozenset(("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "collate_fn"))
_OF_WORKERS = frozenset(
    ("num_workers", "prefetch_factor", "persistent_workers", "timeout", "worker_init_fn", "multiprocessing_context")
)
_UNSEEN = "the DataLoader has a sampler that its call does not show, so no change can be written down"


def whole_batches(seen: LoaderSeen, setting: Setting) -> str:
    """The lines that take the place of those that make the loader."""
    loader = seen.loader
    call = find_loader_call(seen.made_at)
    if call is None and seen.made_at is not None and Path(seen.made_at.file).is_file():
        raise Abstain("no single line of the script makes the DataLoader, so no change can be written down")
    if call is not None and not call.is_complete:
        raise Abstain("the call of the DataLoader does not show all of its arguments, so no change can be written down")
    name = iterated_name(seen.place) or "loader"
    dataset, first = _dataset(call, name)
    written = call.arguments if call is not None else {}
    sampler, needed = _sampler(loader, dataset, written)
    dropped = _REPLACED | (_OF_WORKERS if loader.num_workers and not setting.num_workers else frozenset())
    kept = [f"{argument}={text}" for argument, text in written.items() if argument not in dropped]
    function = call.call.partition("(")[0] if call is not None else "DataLoader"
    made = f"{function}({', '.join([dataset, f'sampler={sampler}', 'batch_size=None', *kept])})"
    lines = [f"from torch.utils.data import {', '.join(needed)}"] if needed else []
    lines += first
    lines += (call.with_call(made) if call is not None else f"{name} = {made}").split("\n")
    lines.append("# the same batches as before; only `batch_size` of the loader is None then")
    return "\n".join([f"# {_where(call)}:", *lines])


def _where(call: LoaderCall | None) -> str:
    if call is None:
        return "where the loader is made"
    lines = (
        f"lines {call.first_line}-{call.last_line}" if call.last_line > call.first_line else f"line {call.first_line}"
    )
    return f"in {Path(call.file).name}, in place of {lines}"


def _dataset(call: LoaderCall | None, loader_name: str) -> tuple[str, list[str]]:
    """How the dataset is called, and a line that gives it a name if it has none: it is needed twice."""
    if call is None:
        return f"{loader_name}.dataset", []
    if all(part.isidentifier() for part in call.dataset.split(".")):
        return call.dataset, []
    return "dataset", [f"dataset = {call.dataset}"]


def _sampler(loader: Any, dataset: str, written: dict[str, str]) -> tuple[str, list[str]]:
    """What gives lists of indices, and what must be imported for it."""
    if type(loader.batch_sampler) is not BatchSampler or loader.batch_size is None:
        if "batch_sampler" not in written:
            raise Abstain(_UNSEEN)
        return written["batch_sampler"], []
    order, needed = _order(loader, dataset, written)
    size = written.get("batch_size", str(loader.batch_size))
    drop = written.get("drop_last", str(loader.drop_last))
    return f"BatchSampler({order}, batch_size={size}, drop_last={drop})", ["BatchSampler", *needed]


def _order(loader: Any, dataset: str, written: dict[str, str]) -> tuple[str, list[str]]:
    if written.get("sampler", "None") != "None":
        return written["sampler"], []
    if type(loader.sampler) is SequentialSampler:
        return f"SequentialSampler({dataset})", ["SequentialSampler"]
    if type(loader.sampler) is not RandomSampler:
        raise Abstain(_UNSEEN)
    generator = f", generator={written['generator']}" if written.get("generator", "None") != "None" else ""
    if loader.sampler.generator is not None and not generator:
        raise Abstain(_UNSEEN)
    return f"RandomSampler({dataset}{generator})", ["RandomSampler"]
