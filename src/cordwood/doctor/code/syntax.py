"""Parses the user's source: the function and the loops around a line, and the names in a statement.

    tree = tree_of("train.py")
    function_around(tree, 31).name
    loops_around(tree, 31)              # innermost first, of the same function

Source that cannot be found or parsed gives None: a rule that cannot read the code says less.
"""

import ast
import functools
import linecache
from collections.abc import Iterator

Loop = ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def tree_of(file: str) -> ast.Module | None:
    """The parsed source of a file, or of a notebook's cell."""
    return _parsed("".join(linecache.getlines(file)))


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module | None:
    if not text:
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def covers(node: ast.AST, line: int) -> bool:
    """Whether a node lies on a line."""
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is not None and last is not None and first <= line <= last


def function_around(tree: ast.Module, line: int) -> ast.Module | ast.FunctionDef | ast.AsyncFunctionDef:
    """The innermost function that a line lies in; the module, outside of all."""
    found: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef = tree
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS) and covers(node, line) and _lines(node) <= _lines(found):
            found = node
    return found


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods of a file."""
    return [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]


def function_at(tree: ast.Module, first: int) -> ast.Module | ast.FunctionDef | ast.AsyncFunctionDef:
    """The function whose code object begins on a line: that is its first decorator's, if it has one."""
    for node in functions(tree):
        if min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) == first:
            return node
    return function_around(tree, first)


def _lines(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> float:
    return float("inf") if isinstance(node, ast.Module) else (node.end_lineno or node.lineno) - node.lineno


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions and classes inside it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def loops_around(tree: ast.Module, line: int) -> list[Loop]:
    """The loops of the line's own function that it lies in, the innermost first.

    The first line of a ``for`` belongs to it, since fetching the next item is a part of every round.
    """
    found = [node for node in own_nodes(function_around(tree, line)) if isinstance(node, _LOOPS) and covers(node, line)]
    return sorted(found, key=lambda node: (node.end_lineno or 0) - node.lineno)


def names_read(node: ast.AST) -> set[str]:
    """The variables that an expression or statement reads."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def names_written(node: ast.AST) -> set[str]:
    """The variables that a statement assigns to."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def source_line(file: str, line: int) -> str:
    """A line of a file, stripped."""
    return linecache.getline(file, line).strip()
