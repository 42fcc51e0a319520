"""How layers are named that validation runs in train mode."""

import pytest
from torch import nn

from cordwood.doctor.evidence import ValidationSeen
from cordwood.doctor.modes import layers_in_train_mode
from cordwood.doctor.rules.evalintrainmode import EvalInTrainMode
from tests.doctor.evidences import make_evidence


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
