"""What a function consists of: its source text, the values in its closure, and the globals that it uses.

>>> source_of(lambda sample: sample["image"])
'lambda sample: sample["image"]'
"""

import ast
import dis
import inspect
import io
import textwrap
import tokenize
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

_LOOKUPS = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


def source_of(function: FunctionType) -> str | None:
    """The text of a function: of a lambda that alone, without the rest of its line. None if there is none."""
    try:
        if function.__name__ != "<lambda>":
            return textwrap.dedent(inspect.getsource(function.__code__))  # the function would lead to what it wraps
        lines, _ = inspect.findsource(function.__code__)
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    return _lambda_text("".join(lines), function.__code__)


def _lambda_text(text: str, code: CodeType) -> str | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # a notebook's cell with commands of its own
        return None
    places = set(code.co_positions())
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            body = node.body
            if (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in places:
                found.append(node)
    return ast.get_source_segment(text, found[0]) if len(found) == 1 else None


def without_comments(text: str) -> str:
    """The text of some code without what changes nothing: comments, and lines that are empty but for them.

    The text and not its syntax tree: how a tree is written differs from one Python to the next.
    """
    lines = text.split("\n")
    empty: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT:
                lines[row - 1] = lines[row - 1][:column].rstrip()
            elif token.type == tokenize.NL and not lines[row - 1].strip():
                empty.add(row - 1)
    except (tokenize.TokenError, SyntaxError, IndexError):  # a part of a line, such as a lambda in brackets
        return text
    return "\n".join(line for row, line in enumerate(lines) if row not in empty)


def closure_values(function: FunctionType) -> Iterator[Any]:
    """What the function holds of the functions around it."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            yield None


class Used(NamedTuple):
    """Something that a function looks up by its name; `module` is the one that it is an attribute of, if it is."""

    name: str
    value: Any
    module: str | None = None


def used_globals(code: CodeType, namespace: Mapping[str, Any]) -> list[Used]:
    """What code looks up in its module, and in modules that it finds there (``helpers.crop``), by name."""
    found: dict[str, Used] = {}
    for one in _codes(code):
        instructions = list(dis.get_instructions(one))
        for instruction, following in zip(instructions, [*instructions[1:], None], strict=True):
            name = instruction.argval
            if instruction.opname not in _LOOKUPS or name not in namespace or name.startswith("__"):
                continue
            used = Used(name, namespace[name])
            if isinstance(used.value, ModuleType) and following is not None and following.opname in _ATTRIBUTES:
                attribute = following.argval
                value = getattr(used.value, attribute, None)
                used = Used(f"{name}.{attribute}", value, used.value.__name__)
            found[used.name] = used
    return [found[name] for name in sorted(found)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
