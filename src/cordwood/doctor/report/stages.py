"""Runs that train one model after another: whether their steps are of one kind, or of two that have little in common.

    stage_notes(evidence)       # ["steps 1 to 60 train Encoder, steps 61 to 120 train Classifier: ..."]

A mean step of two models is that of neither. What tells them apart is the modules that the script calls: where one is
trained for the first time, and all that were trained before never are again, another stage of the run begins.
"""

from cordwood.doctor.evidence.evidence import Evidence, ModuleSeen

_FEWEST_STEPS = 8  # of each stage: fewer do not change a mean that much
_MOST_NAMES = 3


def stage_notes(evidence: Evidence) -> list[str]:
    """What to tell of the first change for good; nothing if there is none, or to a model of the same kind."""
    count = evidence.steps.count if evidence.steps is not None else 0
    for number, stage in enumerate(evidence.stages):
        if min(stage.step, count - stage.step) < _FEWEST_STEPS or not stage.trained:
            continue
        if any(seen.training_calls != calls for seen, calls in stage.trained):
            continue
        before = [seen for seen, _ in stage.trained]
        after = [later.module for later in evidence.stages[number:]]
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
