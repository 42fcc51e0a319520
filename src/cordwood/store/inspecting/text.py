"""A store's inspection as tables for a terminal. Names come from the store, so all of them are filtered."""

from collections.abc import Iterator

from cordwood.common.numbers import four_digits, percent_of
from cordwood.common.tables import folded, section, table
from cordwood.common.text import counted, human, printable, shortened
from cordwood.store.inspecting.result import FieldRow, StoreInspection
from cordwood.store.reading.read_plan import ReadPlan
from cordwood.store.schema.schema import described

HEADINGS = ("field", "kind", "shape", "before", "after", "ratio", "note")
VALUE_HEADINGS = ("values", "min", "max", "mean", "std", "zeros", "NaN", "note")
RIGHT = frozenset((3, 4, 5))
VALUES_RIGHT = frozenset((1, 2, 3, 4, 5, 6))
_LEFT_OUT = ((2, 12), (6, 0), (2, 0), (1, 0), (0, 8))  # on narrow terminals
_GIVE_WAY = ((6, 32), (0, 24), (2, 24), (0, 16), (6, 24), (2, 14), (0, 12), (6, 12), (1, 8), *_LEFT_OUT)
_VALUES_GIVE_WAY = ((7, 24), (0, 24), (0, 12), (7, 0), (6, 0), (4, 0), (5, 0), (0, 8))
_FEW_CLASSES = 12
_MOST_NAMES = 40  # of a dataset's fields


def format_store(inspection: StoreInspection, max_rows: int | None, width: int) -> str:
    """The whole text, without a newline at its end."""
    lines = [f"{printable(inspection.path)}: {headline(inspection)}"]
    for part in (
        _fields(inspection, max_rows, width),
        _values(inspection, max_rows, width),
        _totals(inspection, width),
        section("checked", checked_lines(inspection), width),
        section("plans", plan_lines(inspection), width, most=10**9 if max_rows is None else max_rows),
        section("rounded", rounding_lines(inspection), width),
        section("classes", class_lines(inspection, max_rows is None), width, most=10**9),
        section("schema", [inspection.schema], width),
        section("damaged", inspection.damaged, width),
        section("note", inspection.notes, width),
    ):
        found = list(part)
        if found:
            lines += ["", *found]
    return folded(lines)


def format_dataset(plan: ReadPlan) -> str:
    """A dataset in some lines: what samples it has, and what they are made of; no shard is read for it."""
    lines = [f"Dataset: {printable(chosen(plan))}"]
    kinds = {leaf.name: described(leaf) for leaf in plan.reader.schema.leaves}
    names = plan.field_names[:_MOST_NAMES]
    width = min(max((len(printable(name)) for name in names), default=0), 40)
    lines += [
        f"  {shortened(printable(name), width):{width}}  {kinds.get(name, 'several fields')}".rstrip() for name in names
    ]
    if len(plan.field_names) > len(names):
        lines.append(f"  ... {len(plan.field_names) - len(names)} more fields")
    return folded(lines)


def chosen(plan: ReadPlan) -> str:
    """How many samples of which stores a dataset has."""
    whole = len(plan.reader)
    some = "" if len(plan) == whole else f"{len(plan):,} of "
    return f"{some}{counted(whole, 'sample')} of {' + '.join(map(str, plan.reader.shards.paths))}"


def headline(inspection: StoreInspection) -> str:
    """The store in a line."""
    return (
        f"store, {counted(inspection.samples, 'sample')} in {counted(inspection.shards, 'shard')}, "
        f"{human(inspection.size)}"
    )


def shape_text(row: FieldRow) -> str:
    """A shape as torch prints it, with a range where sizes vary."""
    if row.column and row.ranks is None:
        return "[]" if row.kind in ("tensor", "ndarray") else "-"
    if row.ranks is None:
        return "?"
    if row.smallest is None or row.largest is None:
        return f"{row.ranks[0]} to {row.ranks[1]} dims"
    sizes = (str(a) if a == b else f"{a}..{b}" for a, b in zip(row.smallest, row.largest, strict=True))
    return f"[{', '.join(sizes)}]"


def kind_text(row: FieldRow) -> str:
    """What a value of the field is."""
    if row.kind in ("tensor", "ndarray", "numpy"):
        return f"{row.kind} {row.dtype}"
    return row.kind


def note_of(row: FieldRow, samples: int) -> str:
    """What is worth saying."""
    notes = []
    if row.stored_as:
        notes.append(f"as {row.stored_as}")
    if row.absent:
        notes.append(f"absent in {percent_of(row.absent, samples)}")
    if row.none:
        notes.append(f"None in {percent_of(row.none, samples)}")
    return ", ".join(notes)


def cells_of(row: FieldRow, samples: int) -> tuple[str, ...]:
    """One row of the table of fields."""
    return (
        printable(row.name),
        kind_text(row),
        shape_text(row),
        human(row.before),
        human(row.after),
        "-" if row.ratio is None else f"{row.ratio:.2f}x" if row.ratio < 100 else f"{row.ratio:.0f}x",
        note_of(row, samples),
    )


def value_cells(row: FieldRow) -> tuple[str, ...]:
    """One row of the table of values."""
    values = row.values
    if values is None:
        return (printable(row.name), *("-" for _ in VALUE_HEADINGS[2:]), "")
    notes = ["magnitudes"] if values.magnitudes else []
    if values.infinities:
        notes.append(f"{counted(values.infinities, 'infinite value')}")
    return (
        printable(row.name),
        four_digits(values.smallest),
        four_digits(values.largest),
        four_digits(values.mean) if values.finite else "-",
        four_digits(values.spread) if values.finite else "-",
        percent_of(values.zeros, values.count),
        f"{values.nans:,}" if values.nans else "-",
        ", ".join(notes),
    )


def _fields(inspection: StoreInspection, max_rows: int | None, width: int) -> Iterator[str]:
    rows = inspection.fields[:max_rows]
    if not rows:
        return
    cells = [cells_of(row, inspection.samples) for row in rows]
    yield from table([HEADINGS, *cells], width, _GIVE_WAY, RIGHT)
    if len(rows) < len(inspection.fields):
        yield f"... {len(inspection.fields) - len(rows)} more fields (all: .fields, or --all)"


def _values(inspection: StoreInspection, max_rows: int | None, width: int) -> Iterator[str]:
    cells = [value_cells(row) for row in inspection.fields[:max_rows] if row.values is not None]
    if cells:
        yield from table([VALUE_HEADINGS, *cells], width, _VALUES_GIVE_WAY, VALUES_RIGHT)


def basis(inspection: StoreInspection) -> list[str]:
    """How much was looked at to tell all this."""
    told = []
    if inspection.asked < inspection.shards:
        told.append(
            f"sizes, counts and shapes are those of {inspection.asked:,} evenly chosen shards of "
            f"{inspection.shards:,}, sizes and counts scaled up"
        )
    which = "that could be read" if inspection.damaged else "evenly chosen"
    for word, arrays in (("arrays", True), ("columns", False)):
        looked = {
            row.values_of
            for row in inspection.fields
            if row.values is not None and (not row.column or row.ranks is not None) is arrays
        }
        if looked and min(looked) < inspection.samples:
            up_to = "up to " * (len(looked) > 1)
            told.append(f"values of {word} are those of {up_to}{max(looked):,} samples, {which}")
    return told


def checked_lines(inspection: StoreInspection) -> list[str]:
    """What was read to find damage, and what reads the rest."""
    if not inspection.shards:
        return []
    footers = f"{inspection.asked:,} of {counted(inspection.shards, 'footer')}"
    samples = f"{inspection.checked:,} of {counted(inspection.samples, 'sample')}"
    return [f"index, {footers} and {samples}; `cordwood verify` checks every byte"]


def _totals(inspection: StoreInspection, width: int) -> Iterator[str]:
    if inspection.fields:
        after, before = inspection.after, inspection.before
        times = f", {before / after:.2f}x smaller" if after and before >= after else ""
        about = "about " * (inspection.asked < inspection.shards)
        yield f"total     {about}{human(before)} before, {human(after)} after{times}"
    yield f"goal      {inspection.goal}, shards of {human(inspection.shard_bytes)}"
    yield from section("note", basis(inspection), width)


def plan_lines(inspection: StoreInspection) -> list[str]:
    """Every plan that `store.json` names, and the fields that are kept by it; shards may have others."""
    fields: dict[str, list[str]] = {}
    for row in inspection.fields:
        goal = f" ({row.goal})" if row.goal != inspection.goal and not row.column else ""
        fields.setdefault(f"{row.plan}{goal}", []).append(row.name)
    return [f"{plan}: {', '.join(names)}" for plan, names in fields.items()]


def rounding_lines(inspection: StoreInspection) -> list[str]:
    """The fields that gave up precision, and how much."""
    return [
        f"{row.name}: {row.dtype} stored as {row.stored_as}"
        + ("" if row.worst_error is None else f", worst error {row.worst_error:.3g}")
        for row in inspection.fields
        if row.stored_as is not None
    ]


def class_lines(inspection: StoreInspection, all_of_them: bool) -> list[str]:
    """The classes of labels and how often each occurs: every one of a few, the rarest and the commonest of many."""
    lines = []
    for row in inspection.fields:
        if row.classes is None:
            continue
        shown = row.classes
        title = f"{row.name}: {len(shown):,} class{'es' * (len(shown) != 1)}"
        if len(shown) > _FEW_CLASSES and not all_of_them:
            ordered = sorted(row.classes, key=lambda each: each[1])
            lines.append(f"{title}; rarest {_listed(ordered[:3])}; commonest {_listed(ordered[:-4:-1])}")
        else:
            lines.append(f"{title}: {_listed(shown)}")
    return lines


def _listed(classes: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in classes)
