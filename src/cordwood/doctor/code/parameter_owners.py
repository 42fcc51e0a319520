"""Finds the modules that a parameter belongs to, its name there, and the line that makes them.

owners = find_owners({id(parameter): parameter}, roots=[model])
owners[id(parameter)][0].name       # "head.aux.weight"
attribute_place(Net, "aux")         # the line `self.aux = nn.Linear(8, 4)`
"""

import ast
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from cordwood.doctor.code.live_objects import alive, with_subclasses
from cordwood.doctor.code.syntax import function_at, own_nodes, source_line, tree_of
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.places import is_users

_MOST_OBJECTS = 5_000_000
_WRAPPERS = ("module", "_orig_mod")  # what DataParallel and torch.compile put before every name


@dataclass(frozen=True)
class Owner:
    """A module that holds a parameter."""

    path: tuple[str, ...]  # from the root to the parameter
    chain: tuple[torch.nn.Module, ...]  # the root, ..., the module that holds it

    @property
    def name(self) -> str:
        """The qualified name, as in a state dict."""
        path = list(self.path)
        while len(path) > 1 and path[0] in _WRAPPERS:
            path.pop(0)
        return ".".join(path)


def find_owners(wanted: dict[int, Any], roots: list[torch.nn.Module]) -> dict[int, list[Owner]]:
    """The owners of each wanted parameter, by identity: below these roots, or else anywhere in the program.

    A parameter that no module holds has no owners, and is not in the answer.
    """
    found = _below(wanted, roots)
    missing = {identity: parameter for identity, parameter in wanted.items() if identity not in found}
    if missing:
        modules = alive(with_subclasses(torch.nn.Module), _MOST_OBJECTS) or []
        inner = {id(child) for module in modules for child in module._modules.values()}
        outermost = [module for module in modules if id(module) not in inner]
        found |= {
            identity: [Owner((type(owner.chain[0]).__name__, *owner.path), (owner.chain[0], *owner.chain))]
            for identity, owners in _below(missing, outermost).items()
            for owner in owners[:1]
        }
    return found


def _below(wanted: dict[int, Any], roots: list[torch.nn.Module]) -> dict[int, list[Owner]]:
    found: dict[int, list[Owner]] = {}
    waiting = [Owner((), (root,)) for root in reversed(roots)]
    seen: set[int] = set()
    while waiting:
        owner = waiting.pop()
        module = owner.chain[-1]
        if id(module) in seen:
            continue
        seen.add(id(module))
        for name, parameter in module._parameters.items():
            if id(parameter) in wanted:
                found.setdefault(id(parameter), []).append(Owner((*owner.path, name), owner.chain))
        waiting.extend(
            Owner((*owner.path, name), (*owner.chain, child))
            for name, child in reversed(module._modules.items())
            if child is not None
        )
    return found


def attribute_place(kind: type, name: str) -> CodeLine | None:
    """The user's line that sets an attribute in a method of a class: ``self.head = ...``."""
    for base in kind.__mro__:
        for function in vars(base).values():
            if isinstance(function, FunctionType) and is_users(function.__code__):
                place = _assignment(function, name)
                if place is not None:
                    return place
    return None


def _assignment(function: FunctionType, name: str) -> CodeLine | None:
    file = function.__code__.co_filename
    tree = tree_of(file)
    if tree is None:
        return None
    lines = [
        node.lineno
        for node in own_nodes(function_at(tree, function.__code__.co_firstlineno))
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and target.attr == name
    ]
    if not lines:
        return None
    return CodeLine(file, min(lines), function.__code__.co_qualname, source_line(file, min(lines)))
