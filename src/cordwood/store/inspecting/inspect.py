"""``cw.inspect`` of a store: what it holds, how well it is compressed, and statistics of its values."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cordwood.codecs import DTYPES, fallback
from cordwood.common.text import counted
from cordwood.errors import CordwoodError, FormatError
from cordwood.store.checking.survey import check_is_store, is_store
from cordwood.store.format import plan_files
from cordwood.store.format.folder import store_bytes
from cordwood.store.format.manifest import FieldEntry, Manifest
from cordwood.store.format.shard_file import read_ends, read_footer
from cordwood.store.format.unfinished import unfinished
from cordwood.store.inspecting.result import FieldRow, StoreInspection
from cordwood.store.inspecting.sampling import DamageNotes, look_at_arrays, look_at_columns, shard_place
from cordwood.store.reading.reader import Reader
from cordwood.store.schema.node import CONTAINERS, DICTS, Node
from cordwood.store.schema.schema import Leaf
from cordwood.tensors import Inspection, Progress
from cordwood.tensors import inspect as inspect_file

_MOST_SHARDS = 1000  # whose footers are read: a hundred million samples must not make this slow
_LONGEST_SCHEMA = 2000
_COUNTS = ("raw_bytes", "stored_bytes", "present", "none", "absent")


def inspect(path_or_file: Any, *, check: bool = True, progress: Progress | None = None) -> Inspection | Any:
    """Tell what is in a store or in a tensor file of any format, without running anything of it.

    ::

        print(cw.inspect("model.pt"))
        print(cw.inspect("train.cordwood"))
        wasteful = [row.name for row in cw.inspect("model.pt", check=False).tensors if row.wasted]

    Of a store comes a `StoreInspection`: its fields, what each takes and what its values are like; type checkers know
    that of `Dataset.inspect`, which returns the same. Of a file comes an `Inspection`: its tensors, what is shared and
    what is waste. Damage is told in `damaged`, and what is still readable is shown; only what cannot be read at all is
    a FormatError. `check` reads the whole file to compare it with its checksums; `progress` is then called with the
    bytes that are done and those there are. Of a store the index and some samples are checked, and `checked` says how
    many; `cw.verify` checks all of them.
    """
    if isinstance(path_or_file, str | os.PathLike):
        path = Path(os.fsdecode(path_or_file))
        if path.is_dir() and is_store(path):
            return inspect_store(path)
    return inspect_file(path_or_file, check=check, progress=progress)


def inspect_store(path: str | os.PathLike[str]) -> StoreInspection:
    """Tell what is in a store.

    ::

        inspection = inspect_store("train.cordwood")
    """
    check_is_store(Path(path))
    found = inspect_reader(Reader([path]))
    found.path = os.fspath(path)  # as it was given, where a reader has the whole path
    return found


def inspect_reader(reader: Reader) -> StoreInspection:
    """Tell what is in the stores that a reader reads."""
    # An empty store has nothing to say of fields.
    stores = list(zip(reader.shards.paths, reader.shards.manifests, strict=True))
    path, manifest = next((store for store in stores if store[1].schema is not None), stores[0])
    found = StoreInspection(
        path=" + ".join(map(str, reader.shards.paths)),
        samples=len(reader),
        shards=sum(map(len, reader.shards.records)),
        size=sum(map(store_bytes, reader.shards.paths)),
        goal=manifest.goal,
        shard_bytes=manifest.shard_bytes,
        schema="no samples yet" if manifest.schema is None else schema_text(reader.schema.root),
    )
    found.notes = [note for note in map(unfinished, reader.shards.paths) if note is not None]
    found.notes += _other_plans(stores)
    trouble = DamageNotes(found.damaged)
    found.fields = [
        _row(leaf, entry, path, trouble) for leaf, entry in zip(reader.schema.leaves, manifest.fields, strict=True)
    ]
    _ask_shards(found, reader, trouble)
    look_at_columns(found, reader, trouble)
    look_at_arrays(found, reader, trouble)
    return found


def _other_plans(stores: Sequence[tuple[Path, Manifest]]) -> list[str]:
    """A note of plans that no field names: those of later shards, or of stores that were merged."""
    others = sum(len(set(plan_files.found(path)) - set(manifest.plan_names)) for path, manifest in stores)
    return [f"some shards have plans of their own: {counted(others, 'more plan')}"] if others else []


def _row(leaf: Leaf, entry: FieldEntry, store: Path, trouble: DamageNotes) -> FieldRow:
    node = leaf.node
    return FieldRow(
        name=leaf.name,
        kind="encoded image" if entry.keep_encoded else node.type if node.kind == "scalar" else node.kind,
        dtype=node.dtype or "uint8",
        column=leaf.column >= 0,
        stored_as=leaf.store_as,
        goal=entry.goal,
        plan="column" if leaf.column >= 0 else _plan(leaf, entry, store, trouble),
        classes=None if entry.classes is None else [(name, 0) for name in entry.classes],
    )


def _plan(leaf: Leaf, entry: FieldEntry, store: Path, trouble: DamageNotes) -> str:
    if entry.plan is None:
        return str(fallback(DTYPES[leaf.stored or "uint8"], entry.goal))
    try:
        return str(plan_files.load(store, entry.plan))
    except CordwoodError as error:
        trouble.tell(plan_files.plan_path(store, entry.plan), error)
        return "?"


def schema_text(root: Node) -> str:
    """The structure of a sample in a line: ``{image: tensor float32, label: int, meta: {path: str}}``."""
    text = _node_text(root)
    return text if len(text) <= _LONGEST_SCHEMA else f"{text[: _LONGEST_SCHEMA - 3]}..."


def _node_text(node: Node) -> str:
    if node.kind not in CONTAINERS:
        words = (node.type, node.dtype) if node.kind == "scalar" else (node.kind, node.dtype)
        return words[0] if words[0] in ("int", "float", "bool", "complex") else " ".join(filter(None, words))
    inside = [_node_text(item) for item in node.items]
    if node.kind in (*DICTS, "namedtuple"):
        inside = [f"{label}: {text}" for label, text in zip(node.labels, inside, strict=True)]
    joined = ", ".join(inside)
    match node.kind:
        case "list":
            return f"[{joined}]"
        case "tuple":
            return f"({joined},)" if len(inside) == 1 else f"({joined})"
        case "namedtuple":
            return f"{node.name}({joined})"
    return f"{{{joined}}}" if node.kind == "dict" else f"ordered {{{joined}}}"


# ---- what the shards say of themselves ---------------------------------------------------------------------------


def _chosen(reader: Reader) -> Iterator[tuple[Path, range]]:
    """The shards that are asked, and their samples: all, or some of very many."""
    starts = np.cumsum([0, *map(len, reader.shards.records)])
    total = int(starts[-1])
    for number in np.unique(np.linspace(0, total - 1, min(total, _MOST_SHARDS)).astype(np.int64)).tolist():
        store = int(np.searchsorted(starts, number, "right")) - 1
        yield shard_place(reader, store, number - int(starts[store]))


def _ask_shards(found: StoreInspection, reader: Reader, trouble: DamageNotes) -> None:
    """Add up what the footers say."""
    asked = 0
    for path, samples in _chosen(reader):
        try:
            ends = read_ends(path)
        except CordwoodError as error:
            trouble.shard(path, samples, error)
            continue
        try:
            entries = _entries(read_footer(path, ends)["fields"], found.fields, path)
        except CordwoodError as error:
            trouble.tell(path, error)
            continue
        for row, entry in zip(found.fields, entries, strict=True):
            _add(row, entry)
        asked += len(samples)
        found.asked += 1
    if asked and found.asked < found.shards:
        for row in found.fields:
            for name in ("before", "after", "present", "none", "absent"):
                setattr(row, name, round(getattr(row, name) * found.samples / asked))


def _entries(given: list[Any], fields: list[FieldRow], path: Path) -> list[dict[str, Any]]:
    """What a footer tells of each field, checked: its checksum says that it was written so, not that it is right."""
    good = len(given) == len(fields) and all(
        isinstance(entry, dict)
        and entry.get("name") == row.name
        and all(type(entry.get(name)) is int and entry[name] >= 0 for name in _COUNTS)
        and isinstance(entry.get("worst_error"), float | int | None)
        and _is_shape(entry.get("ranks"), 2)
        and _is_shapes(entry.get("shapes"))
        for entry, row in zip(given, fields, strict=False)
    )
    if not good:
        raise FormatError(f"{path}: the footer tells of other fields than the store, or not as it should")
    return given


def _is_shape(given: object, length: int | None = None) -> bool:
    if given is None:
        return True
    return (
        isinstance(given, list)
        and all(type(size) is int and size >= 0 for size in given)
        and (length is None or len(given) == length)
    )


def _is_shapes(given: object) -> bool:
    if given is None:
        return True
    if not isinstance(given, dict):
        return False
    least, most = given.get("min"), given.get("max")
    return isinstance(least, list) and isinstance(most, list) and len(least) == len(most) and _is_shape(least + most)


def _add(row: FieldRow, entry: dict[str, Any]) -> None:
    """Take in what one shard says of a field."""
    row.before += entry["raw_bytes"]
    row.after += entry["stored_bytes"]
    row.present += entry["present"]
    row.none += entry["none"]
    row.absent += entry["absent"]
    if entry["worst_error"] is not None:
        row.worst_error = max(row.worst_error or 0.0, float(entry["worst_error"]))
    if entry["ranks"] is None:
        return
    shapes = entry["shapes"]
    if row.ranks is None:
        row.ranks = (entry["ranks"][0], entry["ranks"][1])
        row.smallest, row.largest = (tuple(shapes["min"]), tuple(shapes["max"])) if shapes else (None, None)
        return
    row.ranks = (min(row.ranks[0], entry["ranks"][0]), max(row.ranks[1], entry["ranks"][1]))
    same = row.smallest is not None and shapes is not None and len(row.smallest) == len(shapes["min"])
    if not same or row.smallest is None or row.largest is None:
        row.smallest = row.largest = None
        return
    row.smallest = tuple(map(min, zip(row.smallest, shapes["min"], strict=True)))
    row.largest = tuple(map(max, zip(row.largest, shapes["max"], strict=True)))
