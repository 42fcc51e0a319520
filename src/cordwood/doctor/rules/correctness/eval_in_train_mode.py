"""``eval-in-train-mode``: validation with dropout and batch statistics still in train mode."""

from torch import nn

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Abstain, Finding, Rule
from cordwood.doctor.measure.train_mode import learns_statistics

_AT_LEAST = 2  # batches: one may be a look at a sample
_MOST = 0.5  # of them: a few that are unlike the rest are something else
_SEVERAL = 3  # passes of one batch without gradients: who draws so often wants to see the spread
_MOST_NAMES = 4
_LEARNS = ", and running statistics learn from validation data"


class EvalInTrainMode(Rule):
    """Looks at the mode of the modules whose outputs nothing is learned from."""

    id = "eval-in-train-mode"
    title = "validation in train mode"
    measures = (
        "Batches of a loader with forward passes and no backward pass are validation. It speaks if a module runs them "
        "in train mode and holds dropout or batch normalisation that behave differently there."
    )
    costs = (
        "The result is wrong, not slow: dropout drops, and batch normalisation uses the batch's own statistics and "
        "writes the validation data into its running averages."
    )
    wrong = (
        "Monte-Carlo dropout does this on purpose: where every batch goes through the model three times or more, "
        "without gradients, it is information only. So does re-estimating batch statistics: silence the line. Modules "
        "without such layers are never spoken of."
    )
    cure = "Call `model.eval()` before validation, and `model.train()` after it."

    def judge(self, evidence: Evidence) -> list[Finding]:
        if not evidence.validation:
            raise Abstain("no validation was seen: no loader's batches that nothing was learned from")
        findings = []
        for seen in evidence.validation:
            layers = seen.layers
            if seen.in_train_mode < max(_AT_LEAST, _MOST * seen.batches) or not layers:
                continue
            passes = seen.calls / seen.batches
            draws = passes >= _SEVERAL and not seen.with_gradients and not learns_statistics(seen.module)
            wrong = f"its figures are wrong{_LEARNS if learns_statistics(seen.module) else ''}"
            if draws:
                wrong = f"right for Monte-Carlo dropout, as {passes:.0f} passes of each batch look like; else {wrong}"
            findings.append(
                Finding(
                    rule=self.id,
                    message=(
                        f"{seen.in_train_mode} of {seen.batches} validation batches ran in train mode, though "
                        f"{_named(layers, seen.module)}: {wrong}"
                    ),
                    fix="model.eval()\nwith torch.no_grad():\n    ...  # validation\nmodel.train()",
                    place=seen.place,
                    verified="measured",
                    level="info" if draws else "high",
                )
            )
        return findings


def _named(layers: list[str], module: nn.Module) -> str:
    kinds = {name: type(layer).__name__ for name, layer in module.named_modules()}
    names = [f"`{name}` ({kinds[name]})" if name in kinds else f"`{name}`" for name in layers[:_MOST_NAMES]]
    if len(layers) == 1:
        return f"layer {names[0]} behaves differently there"
    more = ", ..." if len(layers) > _MOST_NAMES else ""
    return f"{len(layers)} layers behave differently there, {', '.join(names)}{more}"
