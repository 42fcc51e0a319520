"""``unused-parameters``: parameters that an optimizer holds and that nothing trains."""

from collections import defaultdict

from cordwood.doctor.evidence.evidence import Evidence, ParameterUse
from cordwood.doctor.evidence.findings import CodeLine, Detail, Finding, Level, Rule

_MUCH = 0.01  # of all parameters
_MOST_ROWS = 20
_MOST_NAMED = 3
_MOST_SHOWN = 5


class UnusedParameters(Rule):
    """Reads which parameters had gradients and which modules were called."""

    id = "unused-parameters"
    title = "parameters that nothing trains"
    measures = (
        "Over ten steps it looks at the gradients of all parameters that optimizers hold, and at the modules that are "
        "called. It speaks of parameters that never had a gradient and whose module was never called, either."
    )
    costs = (
        "Such a module takes memory (its values, and its part of every checkpoint) and is often a mistake: a layer "
        "that `forward` forgot stays as it was at the start. With DistributedDataParallel it stops training."
    )
    wrong = (
        "Frozen parameters, tied weights, GANs that train in turns, and modules that are called but got no gradient "
        "are not reported, nor is what an optimizer trained later in the run. A module of a list whose other members "
        "are called (experts, heads of several tasks) may be chosen later: that is information only."
    )
    cure = (
        "Call the module in `forward`, or remove it. If it is meant to wait, freeze it with `requires_grad_(False)` "
        "and give the optimizer only what is trained."
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        use: ParameterUse = evidence.need("parameters")
        groups: dict[CodeLine | str, list[str]] = defaultdict(list)
        for name in use.never_called:
            groups[use.places.get(name) or name.rpartition(".")[0]].append(name)
        findings = [_finding(names, use) for names in groups.values()]
        return sorted(findings, key=lambda finding: finding.level != "medium")


def _finding(names: list[str], use: ParameterUse) -> Finding:
    elements = sum(use.sizes[name] for name in names)
    share = elements / use.total if use.total else 0.0
    maybe_later = all(name in use.chosen for name in names)
    level: Level = "medium" if share >= _MUCH and not maybe_later else "info"
    modules = sorted({name.rpartition(".")[0] or name for name in names})
    what = _called(modules, maybe_later, names)
    counted = f"{len(names)} parameter{'s' if len(names) > 1 else ''} with {elements:,} elements ({share:.1%} of all)"
    return Finding(
        rule=UnusedParameters.id,
        message=f"{what} in {use.steps} steps: the optimizer holds {counted} that nothing trained",
        fix=_fix(modules if maybe_later else _outermost(names), maybe_later),
        place=use.places.get(names[0]),
        verified="measured",
        level=level,
        details=(
            Detail(
                "Without a gradient, and never called",
                ("parameter", "elements"),
                tuple((name, f"{use.sizes[name]:,}") for name in names[:_MOST_ROWS]),
            ),
        ),
    )


def _called(modules: list[str], maybe_later: bool, names: list[str]) -> str:
    """What was not called; a parameter of the model itself is no module, and can only be used."""
    if maybe_later:
        return f"parts of `{_common(names)}`, such as `{modules[0]}`, were never called"
    parts = _outermost(names)
    listed = " and ".join(f"`{part}`" for part in parts[:_MOST_NAMED])
    more = f" and {len(parts) - _MOST_NAMED} more" if len(parts) > _MOST_NAMED else ""
    verb = "used" if set(parts) <= set(names) else "called"
    return f"{listed}{more} {'was' if len(parts) == 1 else 'were'} never {verb}"


def _fix(parts: list[str], maybe_later: bool) -> str:
    """No code where the parts may be meant to wait: freezing them would change what is trained later."""
    if maybe_later:
        shown = ", ".join(parts[:_MOST_SHOWN]) + (", ..." if len(parts) > _MOST_SHOWN else "")
        return f"# nothing, if these are chosen later in training: {shown}; otherwise call or remove them"
    frozen = "\n".join(f"{_written(part)}.requires_grad_(False)" for part in parts[:_MOST_SHOWN])
    more = "\n# ... and so on" if len(parts) > _MOST_SHOWN else ""
    return (
        "# use it in forward, or remove it; if it is meant to wait, freeze it before the optimizer is made:\n"
        f"{frozen}{more}\n"
        "trained = [p for p in model.parameters() if p.requires_grad]  # for the optimizer"
    )


def _written(path: str) -> str:
    """A module's path as code: numbers are places in a list."""
    return "model" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in path.split("."))


def _outermost(names: list[str]) -> list[str]:
    """The modules that these parameters belong to: the one around all of them, or each; the parameter of none."""
    common = _common(names)
    return [common] if common else sorted({name.rpartition(".")[0] or name for name in names})


def _common(names: list[str]) -> str:
    """The module that all of these belong to; empty if that is only the model."""
    parts = [name.split(".")[:-1] for name in names]
    common = []
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        common.append(level[0])
    return ".".join(common)
