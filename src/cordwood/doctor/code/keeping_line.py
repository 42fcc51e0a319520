"""The line that keeps a tensor: ``losses.append(loss)``, ``total += loss``, ``self.sum = self.sum + value``.

    keeping_place(holder)               # Place("train.py", 41, "train", "losses.append(loss)")

It is looked for in the source of the function whose variable it is, and of the class whose attribute it is.
"""

import ast
import re
from collections.abc import Iterator
from types import FunctionType

from cordwood.doctor.code.syntax import function_around, function_at, functions, own_nodes, source_line, tree_of
from cordwood.doctor.code.tensor_holders import Holder
from cordwood.doctor.evidence.findings import Place
from cordwood.doctor.evidence.places import is_users

_BRACKETS = re.compile(r"\[.*?\]")
_ADDING_METHODS = frozenset(("add", "add_", "append", "appendleft", "extend", "insert", "setdefault", "update"))


def keeping_place(holder: Holder) -> Place | None:
    """The line that adds to what the holder holds; else the one that assigns it; else None."""
    for adding in (True, False):
        for file, scope, target in _scopes(holder):
            for node in sorted(own_nodes(scope), key=lambda node: getattr(node, "lineno", 0)):
                if _keeps(node, target, adding):
                    return _place(file, node.lineno)  # type: ignore[attr-defined]
    return None


def _scopes(holder: Holder) -> Iterator[tuple[str, ast.AST, str]]:
    """Where to look, and for which expression."""
    tree = tree_of(holder.file)
    if tree is not None:
        # A module's variable is changed by any of its functions.
        scopes = [tree, *functions(tree)] if holder.code is None else [function_at(tree, holder.code.co_firstlineno)]
        for scope in scopes:
            yield holder.file, scope, holder.name
    for function in vars(holder.owner).values() if holder.owner is not None else ():
        if isinstance(function, FunctionType) and is_users(function.__code__):
            file = function.__code__.co_filename
            tree = tree_of(file)
            if tree is not None:
                inside = function_at(tree, function.__code__.co_firstlineno)
                inner = holder.name[holder.name.rindex(f".{holder.attribute}") :]
                yield file, inside, f"{_first_argument(inside)}{inner}"


def _first_argument(function: ast.AST) -> str:
    arguments = getattr(function, "args", None)
    return arguments.args[0].arg if arguments is not None and arguments.args else "self"


def _keeps(node: ast.AST, target: str, adding: bool) -> bool:
    """Whether a node adds to an expression's value (or, with `adding` off, assigns it)."""
    if adding:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in _ADDING_METHODS and _same(node.func.value, target)
        if isinstance(node, ast.AugAssign):
            return _same(node.target, target)
    if isinstance(node, ast.Assign):
        for left in node.targets:
            if adding and isinstance(left, ast.Subscript) and _same(left.value, target):
                return True
            if _same(left, target):
                return not adding or any(_same(part, target) for part in ast.walk(node.value))
            if not adding and isinstance(left, ast.Tuple) and any(_same(part, target) for part in left.elts):
                return True
    return False


def _same(node: ast.AST, target: str) -> bool:
    """Whether an expression is the target; what stands in brackets may differ, as in ``stats[name]``."""
    return isinstance(node, ast.expr) and _BRACKETS.sub("[]", ast.unparse(node)) == _BRACKETS.sub("[]", target)


def _place(file: str, line: int) -> Place:
    tree = tree_of(file)
    function = None if tree is None else function_around(tree, line)
    return Place(file, line, getattr(function, "name", ""), source_line(file, line))
