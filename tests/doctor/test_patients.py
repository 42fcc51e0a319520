"""Every planted fault is found, comes first, and is laid to the right line. What the gain is, benchmarks measure."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.doctor.cases import PATIENTS, Answer, Patient
from tests.doctor.runs import bare, examined

# Bit for bit is tried where the doctor looks deepest: layout (the tape), values taken, workers, leaks, saving.
COMPARED = {"speech_encoder", "collect_scores", "short_epochs", "average_loss", "save_examples"}


def fits(finding: dict[str, Any], patient: Patient, answer: Answer) -> bool:
    return (
        finding["rule"] == answer.rule
        and finding["file"] == str(patient.path)
        and finding["line"] in patient.numbers(answer)
    )


def multiplies_bfloat16_fast() -> bool:
    """Whether the processor has instructions for it."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


@pytest.mark.parametrize("name", PATIENTS)
def test_the_fault_is_found_first_and_at_its_line(name: str, tmp_path: Path) -> None:
    patient = PATIENTS[name]
    if patient.needs_bfloat16 and not multiplies_bfloat16_fast():
        pytest.skip("this processor multiplies bfloat16 no faster than float32")
    seen = examined(patient.path, tmp_path)
    assert seen.report["findings"], seen.text
    first, *rest = seen.report["findings"]
    abstained = {rule["rule"] for rule in seen.report["rules"]["abstained"]}
    right = [answer for answer in patient.first if not answer.if_abstains or answer.if_abstains in abstained]
    assert any(fits(first, patient, answer) for answer in right), seen.text
    assert first["level"] != "info", seen.text
    for answer in patient.also:
        assert any(fits(finding, patient, answer) for finding in rest), seen.text
    assert seen.code == 1
    if name in COMPARED:
        assert bare(patient.path, tmp_path) == seen.losses


@pytest.mark.parametrize("name", PATIENTS)
def test_the_table_names_lines_that_are_there_and_mends_into_python(name: str) -> None:
    patient = PATIENTS[name]
    for answer in (*patient.first, *patient.also):
        assert patient.numbers(answer)
        assert patient.mended(answer) != patient.path.read_text(encoding="utf-8")
        compile(patient.mended(answer), patient.script, "exec")


def test_there_is_a_patient_for_every_script() -> None:
    scripts = {path.stem for path in next(iter(PATIENTS.values())).path.parent.glob("*.py")}
    assert scripts == set(PATIENTS)
