"""Where a tensor was made that is older than the step: told by the source, from the line that uses it.

    origin_of(place)        # of `out = x + extra`: the line `extra = torch.from_numpy(table.T)`, further up

Nobody watched that line run, so it is named only if it is the only one that it can be: one name in the using line
whose assignment turns axes around or takes an array over.
"""

import ast

from cordwood.doctor.findings import Place
from cordwood.doctor.layoutcure import FROM_ARRAYS, last_name, statement_at
from cordwood.doctor.syntax import covers, functions, own_nodes, source_line, tree_of

_TURNING = frozenset(
    ("t", "T", "mT", "transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "rollaxis", "rearrange")
)


def origin_of(used_at: Place) -> tuple[Place, bool] | None:
    """The line that made what is used at a line, and whether it takes a NumPy array over; None if that is unclear."""
    tree = tree_of(used_at.file)
    statement = statement_at(tree, used_at.line) if tree is not None else None
    if tree is None or statement is None or hasattr(statement, "body"):
        return None
    found: dict[int, ast.stmt] = {}
    for name in _names(statement):
        made = _assignment(tree, name, used_at.line)
        if made is not None and made is not statement and _turns(made):
            found[made.lineno] = made
    if len(found) != 1:
        return None
    made = next(iter(found.values()))
    function = next((each.name for each in reversed(_around(tree, made.lineno))), "<module>")
    place = Place(used_at.file, made.lineno, function, source_line(used_at.file, made.lineno))
    return place, any(last_name(node) in FROM_ARRAYS for node in ast.walk(made))


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


def _assignment(tree: ast.Module, name: str, line: int) -> ast.stmt | None:
    """The last assignment to a variable above a line, in its function or around it; to an attribute, the only one."""
    if name.startswith("self."):
        scopes: list[ast.AST] = [
            function
            for each in ast.walk(tree)
            if isinstance(each, ast.ClassDef) and covers(each, line)
            for function in each.body
        ]
        made = [node for scope in scopes for node in own_nodes(scope) if _assigns(node, name)]
        return made[0] if len(made) == 1 and isinstance(made[0], ast.stmt) else None
    for scope in [*reversed(_around(tree, line)), tree]:
        made = [node for node in own_nodes(scope) if _assigns(node, name)]
        above = [node for node in made if isinstance(node, ast.stmt) and node.lineno < line]
        if made:
            return max(above, key=lambda node: node.lineno) if above else None
    return None


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


def _turns(made: ast.stmt) -> bool:
    return any(last_name(node) in _TURNING or last_name(node) in FROM_ARRAYS for node in ast.walk(made))
