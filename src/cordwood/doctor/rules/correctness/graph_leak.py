"""``graph-leak``: losses that are kept together with their graph."""

import ast
from collections.abc import Callable

from cordwood.common.text import human
from cordwood.doctor.evidence.evidence import Evidence, MemorySeen, RetainedTensors
from cordwood.doctor.evidence.findings import Detail, Finding, Rule

_MUCH_A_STEP = 100_000  # bytes: a gigabyte in ten thousand steps
_STEPS = 10_000
_ALIVE_SHARE = 0.25  # of the peak


class GraphLeak(Rule):
    """Reads what is alive at the ends of some steps."""

    id = "graph-leak"
    title = "memory grows with kept graphs"
    measures = (
        "At the ends of three steps, ten apart, it looks at the tensors that are alive with a graph, and at the "
        "variables, attributes and lists that hold them. It speaks of tensors that were there ten steps ago, still "
        "are, and become more; and of a sum whose graph grows by the same number of nodes each step. Where something "
        "grows, it looks again later: what is emptied now and then, as at the end of an epoch, is for information "
        "unless it is much."
    )
    costs = (
        "A loss tensor is one number, but it holds the whole graph of its step. A list or a sum of losses holds all "
        "steps: memory grows until the process is killed, and freeing it makes the end of an epoch slow."
    )
    wrong = (
        "Graphs that are meant to live on, as in backpropagation through time, do not grow without end: what stays at "
        "one size is not reported, nor what a `deque(maxlen=...)` forgets. Tensors that outlive a step are normal; "
        "they are information, and only where they are a quarter of the peak."
    )
    cure = (
        "Keep the number: `losses.append(loss.item())`; on a device, where `.item()` waits, `loss.detach()`, and "
        "`.item()` once at the end. Of larger tensors keep the values without the graph: "
        "`outputs.append(out.detach())`. `del out, loss` before the next forward pass frees what is needed no more."
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        memory: MemorySeen = evidence.need("memory")
        findings = [_leak(kept, memory) for kept in memory.leaks]
        return findings or _alive(memory)


def _leak(kept: RetainedTensors, memory: MemorySeen) -> Finding:
    if kept.tensors_a_step >= 0.95:
        plural = "s" if kept.tensors_a_step >= 1.5 else ""
        what = f"{kept.tensors_a_step:.2g} more tensor{plural} with a graph after each step"
    elif kept.tensors_a_step >= 0.05:
        what = f"another tensor with its graph after every {1 / kept.tensors_a_step:.2g} steps"
    else:
        what = f"a graph that is {kept.nodes_a_step:,.0f} nodes longer after each step"
    much = kept.bytes_a_step > _MUCH_A_STEP
    if kept.was_emptied:
        grows = f"about {human(round(kept.bytes_a_step))} more a step, until it is emptied"
    else:
        grows = f"about {human(round(kept.bytes_a_step * _STEPS))} in {_STEPS:,} steps"
    rows = [
        ("tensors", f"{kept.tensors_a_step:.2f}"),
        ("graph nodes", f"{kept.nodes_a_step:,.1f}"),
        ("memory, about", human(round(kept.bytes_a_step))),
    ]
    if memory.growth_bytes_a_step:
        rows.append(("growth of the whole process", human(round(memory.growth_bytes_a_step))))
    return Finding(
        rule=GraphLeak.id,
        message=f"`{kept.name}` holds {what}: {grows}",
        fix=_mended(kept),
        place=kept.place,
        verified="measured",
        level="high" if much and not kept.was_emptied else "medium" if much or not kept.was_emptied else "info",
        details=(Detail(f"What grows each step, seen over {memory.steps} steps", ("what", "a step"), tuple(rows)),),
    )


def _mended(kept: RetainedTensors) -> str:
    """The same statement with a number in place of the tensor, or with its values alone."""
    source = kept.place.source if kept.place is not None else ""
    is_number = kept.elements == 1
    line = _without_graph(source, _number if is_number else _values)
    if line is None:
        instead = "a number in place of the tensor: loss.item(), or loss.detach()"
        return f"# give `{kept.name}` {instead if is_number else 'the values without their graph: .detach()'}"
    line = f"{line}    # in place of: {source}"
    return f"{line}\n# or with .detach(), which does not wait for a device" if is_number else line


def _without_graph(source: str, kept_as: Callable[[str], str]) -> str | None:
    try:
        statement = ast.parse(source).body[0]
    except (SyntaxError, IndexError):
        return None
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
        call = statement.value
        kept = ast.unparse(call.args[-1])
        return f"{ast.unparse(call.func)}({', '.join([*map(ast.unparse, call.args[:-1]), kept_as(kept)])})"
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        return f"{ast.unparse(statement.target)} += {kept_as(ast.unparse(statement.value))}"
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        target, value = ast.unparse(statement.targets[0]), statement.value
        if ast.unparse(value.left) == target:
            rest = ast.unparse(value.right)
            return f"{target} = {target} + {kept_as(rest)}" if isinstance(value.op, ast.Add) else None
    return None


def _number(expression: str) -> str:
    # float() takes tensors and numbers alike, as a method that adds up either may get.
    return f"{expression}.item()" if expression.replace(".", "").isidentifier() else f"float({expression})"


def _values(expression: str) -> str:
    return f"{expression}.detach()" if expression.replace(".", "").isidentifier() else f"({expression}).detach()"


def _alive(memory: MemorySeen) -> list[Finding]:
    """What stays alive across steps without growing: only worth a word if it is a large part of the peak."""
    total = sum(nbytes for _, _, nbytes in memory.alive)
    if memory.peak_bytes is None or total < _ALIVE_SHARE * memory.peak_bytes:
        return []
    held = sorted(memory.alive, key=lambda entry: -entry[2])
    names = ", ".join(name for name, _, _ in held if name.isidentifier())
    return [
        Finding(
            rule=GraphLeak.id,
            message=(
                f"{human(total)} of the last step are still alive when the next forward pass begins, "
                f"{total / memory.peak_bytes:.0%} of the peak of {human(memory.peak_bytes)}"
            ),
            fix=f"del {names or held[0][0]}    # at the end of the step",
            place=held[0][1],
            verified="measured",
            level="info",
            details=(
                Detail(
                    "What outlives a step",
                    ("variable", "bytes"),
                    tuple((name, human(nbytes)) for name, _, nbytes in held[:10]),
                ),
            ),
        )
    ]
