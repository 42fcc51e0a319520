"""Writes the fix for a memory layout into the user's own line.

    mended_line(place, "aten::transpose.int", ".contiguous()")      # "y = x.transpose(1, 2).contiguous()"
    mended_array_line(place)            # "extra = torch.from_numpy(np.ascontiguousarray(table.T))"

None where it is not clear which expression of the line makes the tensor: then nothing is put into the user's mouth.
"""

import ast
import linecache

from cordwood.doctor.code.syntax import covers, tree_of
from cordwood.doctor.evidence.findings import CodeLine

FROM_ARRAYS = ("from_numpy", "as_tensor", "asarray")
_TRANSPOSING = ("t", "T", "mT", "transpose", "swapaxes", "swapdims", "permute", "movedim", "moveaxis", "rearrange")
_NAMES = {
    "aten::t": _TRANSPOSING,
    "aten::transpose.int": _TRANSPOSING,
    "aten::permute": _TRANSPOSING,
    "aten::expand": ("expand", "expand_as", "broadcast_to"),
    "aten::unfold": ("unfold",),
    "aten::as_strided": ("as_strided",),
    "": FROM_ARRAYS,
}


def mended_line(place: CodeLine | None, made_by: str, cure: str) -> str | None:
    """The user's line with the cure behind the expression that makes the tensor; ``made_by`` is "" for an array."""
    found = _expression(place, _NAMES.get(made_by, ()))
    return None if found is None else _put_in(found[0], found[1], "", cure)


def mended_array_line(place: CodeLine | None) -> str | None:
    """The user's line with the array made contiguous before torch gets it."""
    found = _expression(place, FROM_ARRAYS)
    if found is None or not isinstance(found[1], ast.Call) or not found[1].args:
        return None
    return _put_in(found[0], found[1].args[0], "np.ascontiguousarray(", ")")


def last_name(node: ast.AST) -> str:
    """The last name of a call or of an attribute: "t" for ``x.t()``, "T" for ``x.T``."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) and isinstance(node, ast.Call) else ""


def statement_at(tree: ast.Module, line: int) -> ast.stmt | None:
    """The innermost statement that a line lies in."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and covers(node, line)]
    return max(found, key=lambda node: node.lineno, default=None)


def _expression(place: CodeLine | None, names: tuple[str, ...]) -> tuple[str, ast.expr] | None:
    """The source of the line, if it is one whole statement, and the one expression in it with one of these names."""
    tree = tree_of(place.file) if place is not None else None
    statement = statement_at(tree, place.line) if tree is not None and place is not None else None
    if place is None or statement is None or hasattr(statement, "body") or statement.lineno != statement.end_lineno:
        return None
    called = {id(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)}
    found = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.expr) and last_name(node) in names and id(node) not in called
    ]
    return (linecache.getline(place.file, place.line), found[0]) if len(found) == 1 else None


def _put_in(line: str, node: ast.expr, before: str, behind: str) -> str:
    """The line with text around an expression. Columns count bytes."""
    text = line.encode()
    start, end = node.col_offset, node.end_col_offset
    return (text[:start] + before.encode() + text[start:end] + behind.encode() + text[end:]).decode().strip()
