"""Every planted fault is found, comes first, and is laid to the right line. What the gain is, benchmarks measure.

The doctor believes its measurements only; where the machine is too busy for them it stays silent, as it should. So a
script whose fault is not reported is run again with more time for trials: the clock must not decide the test.
"""

from pathlib import Path

import pytest
import torch

from tests.doctor.scripts.cases import HERE, PATIENTS
from tests.doctor.support.runs import SECONDS, bare, examined

FAST = {"padded_sentences", "text_statistics", "average_loss"}  # one per kind of rule: data, compute, correctness
# Bit for bit is tried where the doctor looks deepest: layout (the tape), values taken, workers, leaks, saving.
COMPARED = {"speech_encoder", "collect_scores", "short_epochs", "average_loss", "save_examples"}


def multiplies_bfloat16_fast() -> bool:
    """Whether the processor has instructions for it."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in PATIENTS]
)
def test_the_fault_is_found_first_and_at_its_line(name: str, tmp_path: Path) -> None:
    patient = PATIENTS[name]
    if patient.needs_bfloat16 and not multiplies_bfloat16_fast():
        pytest.skip("this processor multiplies bfloat16 no faster than float32")
    for seconds in SECONDS:
        folder = tmp_path / str(seconds)
        folder.mkdir()
        seen = examined(patient.path, folder, seconds)
        told = patient.told(seen.report)
        if told:
            break
    assert told, seen.text
    assert seen.code == (0 if told[0].information else 1)
    if name in COMPARED:
        assert bare(patient.path, folder) == seen.losses


@pytest.mark.parametrize("name", PATIENTS)
def test_the_table_names_lines_that_are_there_and_mends_into_python(name: str) -> None:
    patient = PATIENTS[name]
    for answer in (*patient.first, *patient.also):
        assert patient.numbers(answer)
        assert patient.mended(answer) != patient.path.read_text(encoding="utf-8")
        compile(patient.mended(answer), patient.script, "exec")


def test_a_loader_is_mended_with_the_workers_that_were_advised() -> None:
    patient = PATIENTS["one_worker"]
    (answer,) = (each for each in patient.first if each.rule == "workers")
    assert "num_workers=3, prefetch_factor=4, persistent_workers=True)" in patient.mended(
        answer, fix="DataLoader(..., num_workers=3, prefetch_factor=4)"
    )
    assert "shuffle=True, num_workers=0)" in patient.mended(answer, fix="DataLoader(..., num_workers=0)")


def test_there_is_a_patient_for_every_script() -> None:
    scripts = {path.stem for path in (HERE / "patients").glob("*/*.py")}
    assert scripts == set(PATIENTS)
