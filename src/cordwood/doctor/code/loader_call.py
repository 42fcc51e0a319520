"""Reads the user's code around a DataLoader: its call, the origin of its dataset, and what may be imported.

    call = find_loader_call(CodeLine("train.py", 41))
    call.dataset                            # "train_set", as it stands there
    call.arguments["batch_size"]            # "args.batch_size"
    call.with_call("cw.Loader(ds)")         # "loader = cw.Loader(ds)"
    call.makers                             # ["train_set", "make_dataset"]: module level names that give the dataset

Code is parsed, never run.
"""

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from torch.utils.data import DataLoader

from cordwood.doctor.evidence.findings import CodeLine

_POSITIONAL = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn")
_MOST_BYTES = 4 << 20  # of a file of code
# Expressions that do something when a module is imported, but nothing that packing would mind.
_HARMLESS = frozenset(
    (
        "basicConfig",
        "captureWarnings",
        "filterwarnings",
        "manual_seed",
        "seed",
        "set_float32_matmul_precision",
        "set_num_interop_threads",
        "set_num_threads",
        "set_sharing_strategy",
        "simplefilter",
        "use_deterministic_algorithms",
    )
)
# The command line, which is another one when packing; a person's answer; training itself.
_NOT_FOR_IMPORTS = frozenset(("argv", "backward", "fit", "input", "parse_args", "parse_known_args"))
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class LoaderCall:
    """A call that makes a loader, as the user wrote it."""

    file: str
    first_line: int  # of the statement that it is in
    last_line: int
    statement: str  # dedented
    call: str  # the part of it that is the call
    dataset: str
    arguments: dict[str, str]  # by name, without the dataset
    is_complete: bool  # no *args or **options hide some
    makers: tuple[str, ...]  # names of the module that are the dataset, or make it when called without arguments
    can_be_imported: bool

    def with_call(self, other: str) -> str:
        """The statement with another call in place of this one."""
        return self.statement.replace(self.call, other, 1)


def find_loader_call(place: CodeLine | None) -> LoaderCall | None:
    """The call of a DataLoader at a place; None if there is none, or more than one, or the file cannot be read."""
    tree, source = _parsed(place)
    if place is None or tree is None:
        return None
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= place.line <= (node.end_lineno or 0) and _makes_loader(node)
    ]
    if len(found) != 1:
        return None
    node = found[0]
    arguments, complete = _arguments(node)
    statement = _statement_around(tree, node)
    dataset = arguments.pop("dataset", None)
    if dataset is None or statement is None or statement.end_lineno is None:
        return None
    makers = tuple(dict.fromkeys(_makers(tree, node, dataset)))
    lines = source.splitlines()[statement.lineno - 1 : statement.end_lineno]
    return LoaderCall(
        file=place.file,
        first_line=statement.lineno,
        last_line=statement.end_lineno,
        statement=textwrap.dedent("\n".join(lines)),
        call=_dedented(source, node, statement.col_offset),
        dataset=_text(source, dataset),
        arguments={name: _text(source, value) for name, value in arguments.items()},
        is_complete=complete,
        makers=makers,
        can_be_imported=_can_be_imported(tree, makers),
    )


def iterated_name(place: CodeLine | None) -> str | None:
    """The name of what a ``for`` or an ``iter()`` at this place goes through, if it is plain: ``self.loader``."""
    tree, _ = _parsed(place)
    if place is None or tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and node.iter.lineno == place.line:
            iterated = node.iter
            while isinstance(iterated, ast.Call) and iterated.args:  # enumerate(tqdm(loader))
                iterated = iterated.args[0]
        elif _is_iter(node) and node.lineno <= place.line <= (node.end_lineno or 0):
            iterated = node.args[0]
        else:
            continue
        if isinstance(iterated, ast.Name | ast.Attribute):
            return ast.unparse(iterated)
    return None


def _is_iter(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "iter" and bool(node.args)


def _parsed(place: CodeLine | None) -> tuple[ast.Module | None, str]:
    if place is None:
        return None, ""
    try:
        path = Path(place.file)
        if path.stat().st_size > _MOST_BYTES:
            return None, ""
        source = path.read_text(encoding="utf-8")
        return ast.parse(source), source
    except (OSError, SyntaxError, ValueError):
        return None, ""


def _makes_loader(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return str(name).endswith(DataLoader.__name__)


def _arguments(node: ast.Call) -> tuple[dict[str, ast.expr], bool]:
    plain = [value for value in node.args if not isinstance(value, ast.Starred)]
    given = dict(zip(_POSITIONAL, plain, strict=False))
    given.update({keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None})
    complete = len(plain) == len(node.args) <= len(_POSITIONAL) and all(keyword.arg for keyword in node.keywords)
    return given, complete


def _text(source: str, node: ast.expr) -> str:
    """An expression as it stands there, if that is one line; else written anew."""
    text = ast.get_source_segment(source, node) or ""
    return text if text and "\n" not in text else ast.unparse(node)


def _dedented(source: str, node: ast.expr, columns: int) -> str:
    """The text of a call as it is in the statement once that has lost its margin."""
    text = ast.get_source_segment(source, node) or ""
    first, *rest = text.split("\n")
    return "\n".join([first, *(line[columns:] if not line[:columns].strip() else line for line in rest)])


def _statement_around(tree: ast.Module, inner: ast.AST) -> ast.stmt | None:
    """The innermost simple statement that a node is in: a loader in the head of a ``for`` has none."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr)
        and any(part is inner for part in ast.walk(node))
    ]
    return min(around, key=lambda node: (node.end_lineno or 0) - node.lineno, default=None)


# ---- where the dataset comes from --------------------------------------------------------------------------------


def _makers(tree: ast.Module, call: ast.Call, dataset: ast.expr) -> Iterator[str]:
    """Names of the module that give the dataset: itself, or what is called without arguments to make it."""
    inside = [
        node for node in ast.walk(tree) if isinstance(node, _Function) and any(part is call for part in ast.walk(node))
    ]
    name = ast.unparse(dataset)
    own = [value for function in inside for value in _assigned(function, name)]
    if isinstance(dataset, ast.Attribute):  # self.train_set, set in another method
        own = list(_assigned(tree, name))
    guarded = _guarded(tree)
    level = [value for value in _assigned(tree, name) if not own and not any(value is other for other in guarded)]
    if isinstance(dataset, ast.Name) and level and not any(_has_parameter(function, name) for function in inside):
        yield name
    for value in (dataset, *own, *_assigned(tree, name)):
        if isinstance(value, ast.Call) and not value.args and not value.keywords:
            maker = ast.unparse(value.func)
            if all(part.isidentifier() for part in maker.split(".")) and not maker.startswith("self."):
                yield maker


def _assigned(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    """What is assigned to a name in a scope, functions inside it left out unless the name is an attribute."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(ast.unparse(target) == name for target in targets):
                yield node.value
        if "." in name or not isinstance(node, _Function | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _has_parameter(function: _Function, name: str) -> bool:
    arguments = function.args
    every: list[Any] = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return any(one.arg == name for one in [*every, arguments.vararg, arguments.kwarg] if one is not None)


# ---- whether the module may be imported ----------------------------------------------------------------------------


def _guarded(tree: ast.Module) -> list[ast.AST]:
    """Everything that runs only in a script, not in a module that is imported."""
    return [part for node in tree.body if _is_guard(node) for part in ast.walk(node)]


def _is_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _can_be_imported(tree: ast.Module, makers: tuple[str, ...]) -> bool:
    """Whether importing it defines things and does little else: no loops, no calls for what they do, no arguments.

    A function of the module itself may be called only to make the dataset: another one may be the whole training.
    """
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return all(_is_definition(node, functions - set(makers)) for node in tree.body)


def _is_definition(node: ast.stmt, functions: set[str]) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
        return True
    if _is_guard(node):
        return not getattr(node, "orelse", None)
    if isinstance(node, ast.Try | ast.If):
        parts = [*node.body, *node.orelse, *getattr(node, "finalbody", [])]
        return all(_is_definition(part, functions) for part in parts)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _is_harmless(node.value)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return not _names(node) & (functions | _NOT_FOR_IMPORTS)
    return isinstance(node, ast.Pass | ast.Assert)


def _is_harmless(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _HARMLESS


def _names(node: ast.stmt) -> set[str]:
    """What is named in a statement, functions that it defines left out."""
    found: set[str] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Attribute):
            found.add(part.attr)
        elif isinstance(part, ast.Name):
            found.add(part.id)
        if not isinstance(part, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(part))
    return found
