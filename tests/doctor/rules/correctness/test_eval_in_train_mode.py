"""How layers are named that validation runs in train mode."""

import pytest
from torch import nn

from cordwood.doctor.evidence.evidence import ValidationSeen
from cordwood.doctor.measure.train_mode import layers_in_train_mode
from cordwood.doctor.rules.correctness.eval_in_train_mode import EvalInTrainMode
from tests.doctor.support.evidences import make_evidence


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.Dropout()), "though layer `1` (Dropout) behaves differently there: "),
        (nn.Dropout(), "though layer `Dropout` behaves differently there: "),
        (
            nn.Sequential(nn.BatchNorm1d(2), nn.Dropout()),
            "though 2 layers behave differently there, `0` (BatchNorm1d), `1` (Dropout): ",
        ),
        (nn.Sequential(*(nn.Dropout() for _ in range(5))), "5 layers behave differently there, `0` (Dropout), `1` (Dr"),
        (nn.Sequential(*(nn.Dropout() for _ in range(5))), "`3` (Dropout), ...: its figures are wrong"),
    ],
)
def test_layers_are_named_with_their_kind(module: nn.Module, told: str) -> None:
    evidence = make_evidence()
    layers = layers_in_train_mode(module)
    evidence.validation.append(ValidationSeen(module, None, batches=8, in_train_mode=8, layers=layers))
    (finding,) = EvalInTrainMode().judge(evidence)
    assert told in finding.message


@pytest.mark.parametrize(
    ("module", "calls", "gradients", "level"),
    [
        (nn.Dropout(), 8, 0, "high"),
        (nn.Dropout(), 64, 0, "info"),  # eight passes of each batch: Monte-Carlo dropout
        (nn.Dropout(), 64, 8, "high"),
        (nn.Sequential(nn.BatchNorm1d(2), nn.Dropout()), 64, 0, "high"),  # whose statistics learn, whatever is meant
    ],
)
def test_many_passes_of_a_batch_look_like_drawing(module: nn.Module, calls: int, gradients: int, level: str) -> None:
    evidence = make_evidence()
    layers = layers_in_train_mode(module)
    seen = ValidationSeen(
        module, None, batches=8, calls=calls, in_train_mode=8, with_gradients=gradients, layers=layers
    )
    evidence.validation.append(seen)
    (finding,) = EvalInTrainMode().judge(evidence)
    assert finding.level == level
    assert ("right for Monte-Carlo dropout, as 8 passes" in finding.message) is (level == "info")
