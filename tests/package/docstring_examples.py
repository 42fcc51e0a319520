"""Compares the examples in the docstring of a module with the signatures in that module.

    stale_calls(importlib.import_module("cordwood.store.reading.reader"))   # ["Reader(): missing a required argument"]

An example is a block of the docstring that is Python, indented or not. Its calls of functions and classes of the module
must fit their signatures; so must calls of methods of what such a class made. Nothing is executed.
"""

import ast
import inspect
from collections.abc import Iterator
from textwrap import dedent
from types import ModuleType
from typing import Any


def stale_calls(module: ModuleType) -> list[str]:
    """What is wrong with the examples of a module."""
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    found = []
    for block in _blocks(inspect.getdoc(module) or ""):
        made = _made_by_classes(block, own)
        for node in ast.walk(block):
            if isinstance(node, ast.Call):
                found += _misfit(node, own, made)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                kind = made.get(node.value.id)
                if kind is not None and not _has(kind, node.attr):
                    found.append(f"{ast.unparse(node)}: there is no such attribute")
    return found


def _blocks(docstring: str) -> Iterator[ast.Module]:
    """The paragraphs that hold code; lines that are no Python by themselves are left out of an indented one."""
    for paragraph in docstring.split("\n\n"):
        try:
            yield ast.parse(dedent(paragraph))
        except SyntaxError:
            if paragraph.startswith("    "):
                yield ast.Module([part for line in paragraph.splitlines() for part in _parsed(line)], [])


def _parsed(line: str) -> list[ast.stmt]:
    try:
        return ast.parse(line.strip()).body
    except SyntaxError:
        return []


def _made_by_classes(block: ast.Module, own: dict[str, Any]) -> dict[str, type]:
    """The variables of an example that hold an object of a class of the module."""
    made = {}
    for node in ast.walk(block):
        target, value = None, None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.withitem):
            target, value = node.optional_vars, node.context_expr
        if isinstance(target, ast.Name) and isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            kind = own.get(value.func.id)
            if isinstance(kind, type):
                made[target.id] = kind
    return made


def _misfit(call: ast.Call, own: dict[str, Any], made: dict[str, type]) -> list[str]:
    """Why a call of something in the module does not fit its signature; nothing if it fits, or has a `...` in it."""
    self_too = 0
    function: Any = None
    if isinstance(call.func, ast.Name):
        function = own.get(call.func.id)
    elif isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        kind = made.get(call.func.value.id)
        function = getattr(kind, call.func.attr, None)
        self_too = int(kind is not None and inspect.isfunction(inspect.getattr_static(kind, call.func.attr, None)))
    open_ended = [*call.args, *(keyword.arg for keyword in call.keywords)]
    if not callable(function) or any(
        each is None or isinstance(each, ast.Starred) or (isinstance(each, ast.Constant) and each.value is ...)
        for each in open_ended
    ):
        return []
    try:
        signature = inspect.signature(function)
    except ValueError:  # of something built in
        return []
    try:
        signature.bind(*[None] * (self_too + len(call.args)), **{str(each.arg): None for each in call.keywords})
    except TypeError as error:
        return [f"{ast.unparse(call)}: {error}"]
    return []


def _has(kind: type, name: str) -> bool:
    """Whether objects of a class have an attribute: one of the class, annotated, or assigned in its methods."""
    ours = [each for each in kind.__mro__ if each.__module__.startswith("cordwood")]
    return hasattr(kind, name) or any(
        name in inspect.get_annotations(each) or f"self.{name}" in inspect.getsource(each) for each in ours
    )
