"""The tables of layers and functions in a report, and a note on runs that train one model after another.

    layers_of(evidence)[0]      # {"module": "encoder.0", "class": "Linear", "forward_ms": 3.1, "ms": 9.1, ...}
    functions_of(evidence)      # the functions with most own time, per step and per batch
    stage_notes(evidence)       # ["steps 1 to 60 train Encoder, steps 61 to 120 train Classifier: ..."]

The mean step of two models describes neither of them. A new stage of a run begins where a module is trained for the
first time and no module trained before is trained again.
"""

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cordwood.doctor.evidence.evidence import Evidence, ModuleSeen
from cordwood.doctor.report.anatomy import number

if TYPE_CHECKING:
    from cordwood.doctor.evidence.evidence import Evidence
    from cordwood.doctor.evidence.tape import Tape

MOST_LAYERS = 40
MOST_FUNCTIONS = 10
_PHASES = ("forward", "backward", "optimizer", "other")


def layers_of(evidence: "Evidence") -> list[dict[str, Any]]:
    """Modules by the time of their operations in one step, the slowest first; empty without a tape."""
    tape = evidence.tape
    if tape is None or not tape.ops:
        return []
    found: dict[str, dict[str, Any]] = {}
    for op, ms in zip(tape.ops, _times(tape, evidence.seconds_to_spend > 0), strict=True):
        name = op.module or ("(optimizer)" if op.phase == "optimizer" else "(outside of modules)")
        layer = found.setdefault(name, _layer(name, tape.classes.get(op.module, "")))
        layer["ops"] += 1
        layer[f"{op.phase if op.phase in _PHASES else 'other'}_ms"] += ms
    for layer in found.values():
        layer["ms"] = sum(layer[f"{phase}_ms"] for phase in _PHASES)
    whole = sum(layer["ms"] for layer in found.values()) or 1.0
    ordered = sorted(found.values(), key=lambda layer: -layer["ms"])[:MOST_LAYERS]
    return [
        {**{key: number(value) if key.endswith("ms") else value for key, value in layer.items()}}
        | {"share": number(layer["ms"] / whole)}
        for layer in ordered
    ]


def _layer(name: str, kind: str) -> dict[str, Any]:
    return {"module": name, "class": kind, "ops": 0, **{f"{phase}_ms": 0.0 for phase in _PHASES}}


def _times(tape: "Tape", may_replay: bool) -> list[float]:
    """Milliseconds of each operation: replayed, or as recorded where that cannot be."""
    from cordwood.doctor.replay.replay import op_times

    if may_replay or tape.op_ms is not None:
        with contextlib.suppress(Exception):  # a step that cannot be replayed, for whatever reason
            return op_times(tape)
    return [op.nanoseconds / 1e6 for op in tape.ops]


def functions_of(evidence: "Evidence") -> dict[str, list[dict[str, Any]]]:
    """The functions with most own time: of the training thread per step, and of data loading per batch."""
    return {
        "training": _functions(evidence.stacks.functions if evidence.stacks is not None else ()),
        "loading": _functions(evidence.fetches.functions if evidence.fetches is not None else ()),
    }


def _functions(functions: Iterable[Any]) -> list[dict[str, Any]]:
    ordered = sorted((each for each in functions if each.own_ms > 0), key=lambda each: -each.own_ms)[:MOST_FUNCTIONS]
    return [
        {"name": each.name, "file": each.file, "line": each.line, "own_ms": number(each.own_ms)} for each in ordered
    ]


_FEWEST_STEPS = 8  # of each stage: fewer do not change a mean that much
_MOST_NAMES = 3


def stage_notes(evidence: Evidence) -> list[str]:
    """What to tell of the first change for good; nothing if there is none, or to a model of the same kind."""
    count = evidence.steps.count if evidence.steps is not None else 0
    for place, stage in enumerate(evidence.stages):
        if min(stage.step, count - stage.step) < _FEWEST_STEPS or not stage.trained:
            continue
        if any(seen.training_calls != calls for seen, calls in stage.trained):
            continue
        before = [seen for seen, _ in stage.trained]
        after = [later.module for later in evidence.stages[place:]]
        if {_kind(seen) for seen in before} != {_kind(seen) for seen in after}:
            told = _names(before), _names(after)
            if told[0] == told[1]:
                told = _names(before, sizes=True), _names(after, sizes=True)
            return [
                f"steps 1 to {stage.step} train {told[0]}, steps {stage.step + 1} to {count} train {told[1]}: figures "
                f"are of both together, and so of neither; with `--steps {stage.step}` they are of the first alone"
            ]
    return []


def _size(seen: ModuleSeen) -> int:
    return sum(parameter.numel() for parameter in seen.module.parameters())


def _kind(seen: ModuleSeen) -> tuple[str, int]:
    return type(seen.module).__name__, _size(seen)


def _names(modules: list[ModuleSeen], sizes: bool = False) -> str:
    names = list(
        dict.fromkeys(
            f"{type(seen.module).__name__} ({_size(seen):,} parameters)" if sizes else type(seen.module).__name__
            for seen in modules
        )
    )
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
