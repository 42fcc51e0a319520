"""An inspection as a table for a terminal. Names come from the file, so all of them are filtered."""

from collections.abc import Iterator

from cordwood.common.tables import fit, folded, rule, section, table, table_line
from cordwood.common.text import human, printable, shortened
from cordwood.tensors.inspecting.result import Inspection, NeededGlobal, TensorRow

HEADINGS = ("name", "shape", "dtype", "in memory", "reachable", "wasted", "note")
RIGHT = frozenset((3, 4, 5))
_LEFT_OUT = ((6, 0), (2, 0), (1, 0), (4, 0), (3, 0))  # on terminals that are narrower still
# Which column is narrowed first, and how far; then the next.
_GIVE_WAY = ((6, 32), (0, 36), (1, 22), (6, 24), (0, 26), (1, 16), (6, 12), (0, 18), (1, 12), (6, 8), (0, 12))
_GIVE_WAY_OF_LINES = ((6, 24), (0, 30), (1, 20), (6, 12), (0, 20), (1, 12), (0, 14), (6, 8))
_MOST_LINES = 20  # of globals, records, damage


def format_inspection(inspection: Inspection, max_rows: int | None, width: int) -> str:
    """The whole text, without a newline at its end."""
    lines = [*_header(inspection)]
    for part in (
        _table(inspection, max_rows, width),
        _records(inspection, width),
        _totals(inspection),
        section("damaged", inspection.damaged, width),
        section("needs", [describe_global(needed) for needed in attention(inspection.globals)], width),
        section("advice", inspection.advice, width),
    ):
        found = list(part)
        if found:
            lines += ["", *found]
    return folded(lines)


def _header(inspection: Inspection) -> Iterator[str]:
    parts = [inspection.format, inspection.kind, human(inspection.file_size)]
    if inspection.tensors:
        parts.append(f"{len(inspection.tensors)} tensor{'s' * (len(inspection.tensors) != 1)}")
    yield f"{printable(inspection.path)}: {printable(', '.join(parts))}"
    if inspection.metadata:
        shown = ", ".join(f"{key}={value}" for key, value in list(inspection.metadata.items())[:5])
        yield f"metadata: {shortened(printable(shown), 88)}"


def shape_text(row: TensorRow) -> str:
    """A shape as torch prints it; a question mark for what only the data tell."""
    if row.shape is None:
        return "?"
    return "[" + ", ".join("?" if count is None else str(count) for count in row.shape) + "]"


def dtype_text(row: TensorRow) -> str:
    """Without torch's name before it."""
    return "?" if row.dtype is None else str(row.dtype).removeprefix("torch.")


def note_of(row: TensorRow, first_in: dict[str, str], room: int | None = None) -> str:
    """What is worth saying; `first_in` is the first tensor of every storage, `room` how long a note should be."""
    notes = []
    if row.damaged:
        notes.append("damaged" if row.in_memory else "lost")
    if row.partner_count:
        notes.append(_partners(row, room))
    elif row.storages and first_in.get(row.storages[0], row.name) != row.name:
        notes.append(f"in the storage of {first_in[row.storages[0]]}")
    if row.layout != "strided":
        notes.append(row.layout)
    if not row.contiguous:
        notes.append(row.memory_format or "not contiguous")
    if row.location != "cpu":
        notes.append(row.location)
    if row.codec not in ("stored", "raw", ""):
        notes.append(f"{row.codec} {human(row.in_file)}")
    while room is not None and len(notes) > 1 and len(", ".join(notes)) > room:
        notes.pop()  # the first ones matter most
    return ", ".join(notes)


def _partners(row: TensorRow, room: int | None) -> str:
    shown = row.first_partners(2 if room is None else 1)
    more = f" +{row.partner_count - len(shown)}" if row.partner_count > len(shown) else ""
    if room is not None:
        shown = [shortened(name, max(room - len("shares with ") - len(more), 8)) for name in shown]
    return f"shares with {', '.join(shown)}{more}"


def first_tensors(rows: list[TensorRow]) -> dict[str, str]:
    """The name of the first tensor that lies in each storage."""
    first: dict[str, str] = {}
    for row in rows:
        for key in row.storages:
            first.setdefault(key, row.name)
    return first


def cells_of(row: TensorRow, first_in: dict[str, str], room: int | None = None) -> tuple[str, ...]:
    """One row; a storage's size and waste stand where it comes first, and a ditto mark elsewhere."""
    again = bool(row.storages) and all(first_in[key] != row.name for key in row.storages)
    lost = row.damaged and not row.in_memory
    wasted = human(row.wasted) if row.wasted else "-"
    return (
        printable(row.name) or "(the tensor itself)",
        shape_text(row),
        dtype_text(row),
        '"' if again else human(row.in_memory) if not lost else "-",
        human(row.reachable) if not lost else "-",
        '"' if again and row.wasted else wasted,
        printable(note_of(row, first_in, room)),
    )


def _table(inspection: Inspection, max_rows: int | None, width: int) -> Iterator[str]:
    rows = inspection.tensors
    if not rows:
        return
    first_in = first_tensors(rows)
    head, tail = rows, rows[:0]
    if max_rows is not None and len(rows) > max_rows:
        head, tail = rows[: max_rows * 2 // 3], rows[len(rows) - max_rows + max_rows * 2 // 3 :]
    hidden = rows[len(head) : len(rows) - len(tail)]
    cells = [cells_of(row, first_in) for row in (*head, *tail)]
    widths = fit([HEADINGS, *cells], width, (*_GIVE_WAY, *_LEFT_OUT))
    # A note that does not fit names fewer partners, rather than half of one.
    short = [cells_of(row, first_in, widths[-1]) for row in (*head, *tail)]
    lines = [table_line(pair[len(pair[0][-1]) > widths[-1]], widths, RIGHT) for pair in zip(cells, short, strict=True)]
    yield table_line(HEADINGS, widths, RIGHT)
    yield rule(widths)
    yield from lines[: len(head)]
    if hidden:
        waste = sum(row.wasted > 0 for row in hidden)
        yield f"... {len(hidden)} more rows{f', {waste} of them with waste' if waste else ''} (all: .tensors, or --all)"
    yield from lines[len(head) :]


def _records(inspection: Inspection, width: int) -> Iterator[str]:
    """Where there are no tensors to show, what is in the archive."""
    if inspection.tensors or not inspection.records:
        return
    shown = inspection.records[:_MOST_LINES]
    yield "records"
    for record in shown:
        yield f"  {human(record.size):>10}  {shortened(printable(record.name), width - 14)}"
    if len(inspection.records) > len(shown):
        yield f"  ... {len(inspection.records) - len(shown)} more (all: .records)"


def _totals(inspection: Inspection) -> Iterator[str]:
    if inspection.in_memory:
        share = 100 * inspection.wasted / inspection.in_memory
        waste = f"{human(inspection.wasted)} wasted ({share:.1f}%)" if inspection.wasted else "nothing wasted"
        yield f"total     {sizes_text(inspection)}, {human(inspection.reachable)} reachable, {waste}"
    yield f"checks    {inspection.checks}"


def sizes_text(inspection: Inspection) -> str:
    """The size of all storages, and what they take in the file where that differs."""
    in_memory, in_file = human(inspection.in_memory), human(inspection.in_file)
    return f"{in_memory} in memory" + (f", {in_file} in the file" if inspection.in_file != inspection.in_memory else "")


def attention(needed: list[NeededGlobal]) -> list[NeededGlobal]:
    """The globals that a safe loader refuses."""
    return [each for each in needed if not each.safe]


def describe_global(needed: NeededGlobal) -> str:
    """A global that needs attention, in words."""
    return str(needed) if needed.imports else f"{needed} (cannot be imported here)"


def format_lines(inspections: list[Inspection], width: int = 100) -> Iterator[str]:
    """One line for each of many files."""
    rows = [("file", "kind", "size", "in memory", "reachable", "wasted", "note")]
    for inspection in inspections:
        notes = [f"{len(inspection.damaged)} damaged"] if inspection.damaged else []
        if inspection.format != "pt":
            notes.append(inspection.format)
        if inspection.bound_to:
            notes.append(f"bound to {inspection.bound_to[0]}")
        rows.append(
            (
                printable(inspection.path),
                printable(inspection.kind),
                human(inspection.file_size),
                human(inspection.in_memory),
                human(inspection.reachable),
                human(inspection.wasted) if inspection.wasted else "-",
                printable(", ".join(notes)),
            )
        )
    yield from table(rows, width, (*_GIVE_WAY_OF_LINES, *_LEFT_OUT), right=range(2, 6))


def format_total(inspections: list[Inspection]) -> str:
    """All files in one sentence."""
    size, in_memory, reachable, wasted = (
        sum(getattr(inspection, name) for inspection in inspections)
        for name in ("file_size", "in_memory", "reachable", "wasted")
    )
    share = f" ({100 * wasted / in_memory:.1f}%)" if wasted else ""
    return (
        f"{len(inspections)} files, {human(size)}: {human(in_memory)} in memory, {human(reachable)} reachable, "
        f"{human(wasted)} wasted{share}"
    )
