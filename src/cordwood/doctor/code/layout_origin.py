"""Finds the line that made a tensor which is older than the step, in the source, starting from the line that uses it.

    origin_of(place)        # of `out = x + extra`: the line `extra = torch.from_numpy(table.T)`, further up

Nobody watched that line run, so it is named only if it is the only one that it can be: one name in the using line
whose assignment turns axes around or takes an array over. Parts of it may have names of their own: ``x = extra[a:b]``.
"""

import ast
from collections.abc import Collection

from cordwood.doctor.code.layout_fix import FROM_ARRAYS, last_name, statement_at
from cordwood.doctor.code.syntax import covers, functions, own_nodes, source_line, tree_of
from cordwood.doctor.evidence.findings import CodeLine

_TURNING = frozenset(
    ("t", "T", "mT", "transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "rollaxis", "rearrange")
)
_SAME = frozenset(("to", "float", "cpu", "cuda", "detach", "requires_grad_", "narrow", "squeeze", "unsqueeze"))
_MOST_NAMES = 5  # that a tensor and its parts go by


def origin_of(used_at: CodeLine) -> tuple[CodeLine, bool] | None:
    """The line that made what is used at a line, and whether it takes a NumPy array over; None if that is unclear."""
    tree = tree_of(used_at.file)
    if tree is None:
        return None
    turned: dict[int, ast.stmt] = {}
    taken: dict[int, ast.stmt] = {}  # from arrays, in what order nobody can see
    for statement in _statements_at(tree, used_at.line):
        for name in _names(statement):
            made = _maker(tree, name, statement)
            if made is not None and _has(made, _TURNING):
                turned[made.lineno] = made
            elif made is not None and _has(made, FROM_ARRAYS):
                (turned if _takes_turned(tree, made) else taken)[made.lineno] = made
    found = turned or taken  # labels are often taken from an array, too: one that is plainly turned is the likely one
    if len(found) != 1:
        return None
    made = next(iter(found.values()))
    function = next((each.name for each in reversed(_around(tree, made.lineno))), "<module>")
    place = CodeLine(used_at.file, made.lineno, function, source_line(used_at.file, made.lineno))
    return place, _has(made, FROM_ARRAYS)


def _statements_at(tree: ast.Module, line: int) -> list[ast.stmt]:
    """The innermost statements that a line lies in: several, if there are semicolons. None for the head of a block."""
    innermost = statement_at(tree, line)
    if innermost is None or hasattr(innermost, "body"):
        return []
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno == innermost.lineno and not hasattr(node, "body")
    ]


def _maker(tree: ast.Module, name: str, used_in: ast.stmt) -> ast.stmt | None:
    """The statement that made what a name stands for: parts of it that were given names since are followed back."""
    for _ in range(_MOST_NAMES):
        found = _assignment(tree, name, used_in)
        if found is None or found[0] is used_in:
            return None
        used_in, value = found
        whole = _whole(value)
        if not isinstance(whole, ast.Name):
            return used_in
        name = whole.id
    return None


def _whole(value: ast.expr) -> ast.expr:
    """What an expression is a part of, or the same as, in the same order: ``X`` for ``X[a:b].float()``."""
    while True:
        if isinstance(value, ast.Subscript):
            value = value.value
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SAME:
            value = value.func.value
        else:
            return value


def _takes_turned(tree: ast.Module, made: ast.stmt) -> bool:
    """Whether the array that a statement takes over was turned further up."""
    makers = (_maker(tree, name, made) for name in _names(made))
    return any(maker is not None and _has(maker, _TURNING) for maker in makers)


def _names(statement: ast.stmt) -> set[str]:
    """What a statement reads: ``extra``, ``self.extra``."""
    return {
        ast.unparse(node)
        for node in ast.walk(statement)
        if (isinstance(node, ast.Name) or _is_of_self(node)) and isinstance(node.ctx, ast.Load)  # type: ignore[attr-defined]
    }


def _is_of_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _around(tree: ast.Module, line: int) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions that a line lies in, the outermost first."""
    return sorted((each for each in functions(tree) if covers(each, line)), key=lambda each: each.lineno)


def _assignment(tree: ast.Module, name: str, used_in: ast.stmt) -> tuple[ast.stmt, ast.expr] | None:
    """The last assignment to a variable above a statement, in its function or around it, and the value that it gets.

    To an attribute, the only one there is. None where something else gave it its value: a loop, a call of the function.
    """
    if name.startswith("self."):
        scopes: list[ast.AST] = [
            function
            for each in ast.walk(tree)
            if isinstance(each, ast.ClassDef) and covers(each, used_in.lineno)
            for function in each.body
        ]
        made = [node for scope in scopes for node in own_nodes(scope) if _assigns(node, name)]
        return (made[0], _value_of(made[0])) if len(made) == 1 and isinstance(made[0], ast.stmt) else None
    for scope in [*reversed(_around(tree, used_in.lineno)), tree]:
        nodes = list(own_nodes(scope))
        stores = [node for node in nodes if isinstance(node, ast.Name) and node.id == name and _is_stored(node)]
        if any(isinstance(node, ast.arg) and node.arg == name for node in nodes) and not stores:
            return None
        above = [node for node in stores if _start(node) < _start(used_in)]
        if stores:
            last = max(above, key=_start, default=None)
            assigning = (node for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign))
            return next(((node, value) for node in assigning if (value := _gives(node, last)) is not None), None)
    return None


def _is_stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _start(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _gives(node: ast.Assign | ast.AnnAssign, name: ast.Name | None) -> ast.expr | None:
    """The value that an assignment gives to a name, alone or as one of several: ``x, y = X[a:b], labels[a:b]``."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if target is name:
            return node.value
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            for one, value in zip(target.elts, node.value.elts, strict=False):
                if isinstance(one, ast.Starred) or isinstance(value, ast.Starred):
                    break
                if one is name:
                    return value
    return None


def _value_of(statement: ast.stmt) -> ast.expr:
    """What an attribute gets."""
    if isinstance(statement, ast.Expr):  # register_buffer
        return statement.value
    value: ast.expr = statement.value  # type: ignore[attr-defined]
    return value


def _assigns(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Assign):
        return any(ast.unparse(target) == name for target in node.targets)
    if isinstance(node, ast.AnnAssign):
        return node.value is not None and ast.unparse(node.target) == name
    return isinstance(node, ast.Expr) and _registers(node.value, name)


def _registers(node: ast.AST, name: str) -> bool:
    """``self.register_buffer("extra", ...)`` makes ``self.extra``."""
    return (
        isinstance(node, ast.Call)
        and last_name(node) == "register_buffer"
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and name == f"self.{node.args[0].value!s}"
    )


def _has(made: ast.stmt, names: Collection[str]) -> bool:
    """Whether one of these functions is called, or attributes read, in a statement."""
    return any(last_name(node) in names for node in ast.walk(made))
