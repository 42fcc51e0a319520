"""Finds the variable, attribute or list that keeps a tensor alive, and the line that adds to it.

    holders = find_holders(frame, wanted={id(loss): loss})
    holders[id(loss)][0].name               # "losses", "self.history", "meter.total"
    keeping_place(holders[id(loss)][0])     # CodeLine("train.py", 41, "train", "losses.append(loss)")

The search starts at the variables of the user's running functions and at the globals of their modules. It runs none of
the user's code: no properties, no ``__getattr__``, no comparisons. The line is searched in the source of the function
that has the variable, or of the class that has the attribute.
"""

import ast
import inspect
import re
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import torch

from cordwood.doctor.code.syntax import function_around, function_at, functions, own_nodes, source_line, tree_of
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.places import is_users

_MOST_OBJECTS = 100_000  # that are looked at
_MOST_PARTS = 10_000  # of one list: the last ones, since that is where lists grow
_DEEPEST = 4  # steps from a variable to the tensor
_HOLDS_NOTHING = (int, float, complex, str, bytes, bytearray, type(None), type, ModuleType, FunctionType, CodeType)


@dataclass(frozen=True)
class Holder:
    """A variable, or what is reached from it, that holds tensors."""

    name: str  # as the user's code would write it: "losses", "self.history", "stats['loss']"
    code: CodeType | None  # of the function whose variable it is; None for a module's
    file: str
    owner: type | None = None  # the class of the object whose attribute it is
    attribute: str = ""  # its name there


def user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The user's running functions, from a frame outwards."""
    while frame is not None:
        if is_users(frame.f_code):
            yield frame
        frame = frame.f_back


def variables(frame: FrameType) -> dict[str, Any]:
    """The variables of a running function. Before 3.13 Python keeps a copy of them in the frame: it is emptied."""
    found = frame.f_locals
    copy = dict(found)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        found.clear()
    return copy


def find_holders(frame: FrameType | None, wanted: dict[int, Any]) -> dict[int, list[Holder]]:
    """For each wanted object, who holds it, by identity; of several ways to one list the shortest counts."""
    found: dict[int, list[Holder]] = {}
    seen: set[int] = set()
    waiting: deque[tuple[Any, Holder, int]] = deque()
    for users in user_frames(frame):
        code, file = users.f_code, users.f_code.co_filename
        if code.co_flags & inspect.CO_OPTIMIZED:
            for name, value in variables(users).items():
                waiting.append((value, Holder(name, code, file), 0))
        for name, value in list(users.f_globals.items()):
            if not name.startswith("__"):
                waiting.append((value, Holder(name, None, file), 0))
    for _ in range(_MOST_OBJECTS):
        if not waiting:
            break
        value, holder, depth = waiting.popleft()
        if id(value) in wanted:
            if holder not in (known := found.setdefault(id(value), [])):
                known.append(holder)
            continue
        if id(value) in seen or depth == _DEEPEST:
            continue
        seen.add(id(value))
        waiting.extend(
            (part, inside, depth + 1)
            for part, inside in _parts(value, holder)
            if not issubclass(type(part), _HOLDS_NOTHING)
        )
    return found


def _parts(value: Any, holder: Holder) -> Iterator[tuple[Any, Holder]]:
    """What an object holds, and under which name."""
    kind = type(value)
    if issubclass(kind, deque) and value.maxlen is not None:
        return  # it forgets by itself
    base = next((base for base in (list, tuple, deque, set, frozenset) if issubclass(kind, base)), None)
    if base is not None:
        # The base's own way, since a subclass may do anything in its methods.
        parts: Iterator[Any] = getattr(base, "__reversed__", base.__iter__)(value)
        for part in list(islice(parts, _MOST_PARTS)):
            yield part, holder
    elif issubclass(kind, dict):
        for key, part in list(islice(dict.items(value), _MOST_PARTS)):
            name = f"{holder.name}[{key!r}]" if type(key) in (str, int) else holder.name
            yield part, Holder(name, holder.code, holder.file, holder.owner, holder.attribute)
    elif not issubclass(kind, torch.Tensor):
        try:
            attributes = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        if type(attributes) is dict:
            for name, part in list(attributes.items()):
                yield part, Holder(f"{holder.name}.{name}", holder.code, holder.file, kind, name)


_BRACKETS = re.compile(r"\[.*?\]")
_ADDING_METHODS = frozenset(("add", "add_", "append", "appendleft", "extend", "insert", "setdefault", "update"))


def keeping_place(holder: Holder) -> CodeLine | None:
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


def _place(file: str, line: int) -> CodeLine:
    tree = tree_of(file)
    function = None if tree is None else function_around(tree, line)
    return CodeLine(file, line, getattr(function, "name", ""), source_line(file, line))
