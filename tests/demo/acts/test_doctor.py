"""What the demo makes of a doctor's advice: read, applied, or missing."""

from pathlib import Path

import pytest

from cordwood.demo.acts import doctor
from cordwood.doctor.report.report import Report
from cordwood.errors import DoctorError
from tests.doctor.support.evidences import make_report


def test_advice_of_several_lines_is_read_and_applied() -> None:
    fix = "\n".join(
        [
            "# in train.py, in place of lines 2-4:",
            "import cordwood as cw",
            'cw.pack(data, "train-2.cordwood")',
            "if x:",
            '    loader = cw.Loader(cw.open("train-2.cordwood"))',
        ]
    )
    advice = doctor.read_advice(fix)
    assert (advice.command, advice.store) == ("", "train-2.cordwood")
    removed, changed = doctor.apply(advice, "if y:\n    loader = DataLoader(\n        data,\n    )\nend\n")
    assert removed == ("loader = DataLoader(", "    data,", ")")
    assert changed.splitlines() == [
        "if y:",
        "    import cordwood as cw",
        '    cw.pack(data, "train-2.cordwood")',
        "    if x:",
        '        loader = cw.Loader(cw.open("train-2.cordwood"))',
        "end",
    ]
    with pytest.raises(DoctorError, match="does not say which lines"):
        doctor.read_advice("cordwood pack SOURCE train.cordwood")


def test_a_command_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(DoctorError, match=r"exit code 2; it said last:\n(.|\n)*'burn'"):
        doctor.run("cordwood burn", tmp_path)
    with pytest.raises(DoctorError, match="begins with `cordwood`"):
        doctor.run("rm -rf .", tmp_path)


def test_a_report_that_was_not_made_is_missed(tmp_path: Path) -> None:
    assert doctor.run("cordwood --version", tmp_path).startswith("cordwood ")
    with pytest.raises(DoctorError, match=r"before\.json was not made: `cordwood --version` .* exit code 0"):
        doctor.run("cordwood --version", tmp_path, makes=tmp_path / "before.json")


def test_without_advice_nothing_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = make_report(abstained={doctor.RULE: "there is no time for a trial"})

    def examine(where: Path, name: str, seconds: float) -> tuple[str, Report]:
        return f"cordwood doctor {name}", silent

    monkeypatch.setattr(doctor, "examine", examine)
    seen: list[tuple[str, int, int]] = []
    result = doctor.close_the_loop(tmp_path / "doctor", lambda *step: seen.append(step))
    assert not result.has_advice
    assert result.before == silent.verdict
    assert result.before_phases.keys() <= silent.document["phases"].keys()
    assert result.before_phases["wait"] == silent.document["phases"]["wait"]["mean_ms"] > 0
    assert result.finding == f"{doctor.RULE} abstained: there is no time for a trial"
    assert [done for _, done, _ in seen] == [1, 4]
    scripts = [(tmp_path / "doctor" / name).read_text() for name in (doctor.NAME, doctor.UNCHANGED)]
    assert scripts == [doctor.SCRIPT.read_text()] * 2
