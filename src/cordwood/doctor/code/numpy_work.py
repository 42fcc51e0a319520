"""Finds NumPy's work on values taken out of a tensor: by stack samples, linked to the tensor by the source.

    calls += array_work(calls, stacks, steps=24)

A line counts when samples show NumPy (or SciPy, scikit-learn, pandas) at work below it, and when it reads a variable
that comes from a large tensor's ``.numpy()``, ``.cpu()`` or ``.tolist()`` in the same function. NumPy's work on
anything else is none of the tensor's business.
"""

import ast

from cordwood.doctor.code.syntax import covers, function_around, names_read, names_written, own_nodes, tree_of
from cordwood.doctor.evidence.evidence import SyncCall
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.stacks import Stacks

OPERATION = "NumPy"
_TAKES_ARRAYS = (".numpy()", ".cpu()", ".tolist()", ".to()", "conversion to NumPy")
# Fewer elements cost NumPy and torch about the same: the call itself.
_FEWEST_ELEMENTS = 1000


def array_work(calls: list[SyncCall], stacks: Stacks, steps: int) -> list[SyncCall]:
    """The lines where NumPy works on what these calls took, as calls of their own; times are over so many steps."""
    found = []
    for place, ms in stacks.array_lines.items():
        sources = [call for call in calls if _takes_for(call, place)]
        if sources:
            largest = max(sources, key=lambda call: call.elements)
            found.append(
                SyncCall(
                    place,
                    OPERATION,
                    largest.device,
                    calls=max(call.calls for call in sources),
                    numpy_milliseconds=ms * steps,
                    elements=largest.elements,
                    by_step=dict.fromkeys(largest.by_step, 0.0),
                )
            )
    return found


def _takes_for(call: SyncCall, place: CodeLine) -> bool:
    """Whether what a call takes out of a tensor is read on a line."""
    if call.operation not in _TAKES_ARRAYS or call.elements < _FEWEST_ELEMENTS:
        return False
    if call.place is None or call.place.file != place.file:
        return False
    tree = tree_of(place.file)
    if tree is None:
        return False
    function = function_around(tree, place.line)
    if function_around(tree, call.place.line) is not function:
        return False
    return reads_from(function, call.place.line, place.line)


def reads_from(function: ast.AST, source: int, line: int) -> bool:
    """Whether a line of a function reads a variable that comes from an expression on another line."""
    statements = [node for node in own_nodes(function) if isinstance(node, ast.stmt)]
    simple = [node for node in statements if not hasattr(node, "body")]
    if any(covers(node, source) and covers(node, line) for node in simple):
        return True
    tainted: set[str] = set()
    for node in simple:
        if covers(node, source):
            tainted |= names_written(node)
    while True:
        reached = {name for node in simple if names_read(node) & tainted for name in names_written(node)}
        if reached <= tainted:
            break
        tainted |= reached
    return any(covers(node, line) and names_read(node) & tainted for node in simple)
