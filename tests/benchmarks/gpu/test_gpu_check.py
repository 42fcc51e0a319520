"""`make gpu-check`, as far as a machine without a GPU can tell: the checks notice what is wrong."""

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from benchmarks.gpu import __main__ as command
from benchmarks.gpu import copies, diagnosis, faulty, files
from benchmarks.gpu.checks import Check, Setting, SkippedCheck, run_checks
from benchmarks.gpu.report import describe, render
from tests.marks import slow_after

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)  # nothing is ever put there


def verdict(check: Check, folder: Path) -> tuple[str, str]:
    (result,) = run_checks([check], Setting(CPU, folder))
    return result.verdict, result.note


def test_what_a_check_raises_decides_and_the_next_one_runs(tmp_path: Path) -> None:
    def passes(setting: Setting) -> str:
        return "3 ms"

    def fails(setting: Setting) -> str:
        raise AssertionError("batch 3 is on cpu\nmore")

    def is_skipped(setting: Setting) -> str:
        raise SkippedCheck("no such memory")

    def breaks(setting: Setting) -> str:
        raise RuntimeError("CUDA error: invalid argument")

    lines: list[str] = []
    setting = Setting(CPU, tmp_path, {"the doctor": "nothing worth changing"})
    results = run_checks([breaks, fails, is_skipped, passes], setting, lines.append)
    assert [(result.name, result.verdict, result.note) for result in results] == [
        ("breaks", "ERROR", "RuntimeError: CUDA error: invalid argument"),
        ("fails", "FAIL", "batch 3 is on cpu"),
        ("is_skipped", "SKIP", "no such memory"),
        ("passes", "PASS", "3 ms"),
    ]
    assert lines[::2] == ["... breaks", "... fails", "... is_skipped", "... passes"]
    report = render(results, describe(CPU), setting.texts)
    assert all(line in report for line in lines[1::2])
    assert "1 PASS, 1 FAIL, 1 ERROR, 1 SKIP" in report
    assert report.count("Traceback (most recent call last)") == 2
    assert f"* torch: {torch.__version__}" in report
    assert "nothing worth changing" in report


def test_every_function_that_looks_like_a_check_is_listed() -> None:
    for module in (copies, diagnosis, files):
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        assert re.findall(r"^def ([a-z]\w*)\(setting: Setting\) -> str:", text, re.MULTILINE) == [
            check.__name__ for check in module.CHECKS
        ]
    assert set(command.CHECKS) == {*copies.CHECKS, *diagnosis.CHECKS, *files.CHECKS}


def read_too_early(batches: Iterable[Any]) -> Iterator[Any]:
    """The second batch is one whose copy has not begun."""
    for number, batch in enumerate(batches):
        if number != 1:
            yield batch
        elif isinstance(batch, dict):
            yield {**batch, "dense": torch.zeros_like(batch["dense"])}
        else:
            yield (
                torch.zeros_like(batch)
                if isinstance(batch, torch.Tensor)
                else type(batch)(map(torch.zeros_like, batch))
            )


class EarlyLoader(cw.Loader):
    """Those with a device are read too early."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.is_early = "device" in options

    def __iter__(self) -> Any:
        return read_too_early(super().__iter__()) if self.is_early else super().__iter__()


@pytest.mark.parametrize("check", slow_after(4, copies.CHECKS))
def test_batches_that_are_read_too_early_are_noticed(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = verdict(check, tmp_path)[0]
    whole = cw.prefetch
    monkeypatch.setattr(cw, "prefetch", lambda source, **options: read_too_early(whole(source, **options)))
    monkeypatch.setattr(cw, "Loader", EarlyLoader)
    needs_device = "stream" in check.__name__ or "pinned" in check.__name__ or "computes" in check.__name__
    assert (before, verdict(check, tmp_path)[0]) == (("SKIP", "SKIP") if needs_device else ("PASS", "FAIL"))


@pytest.mark.parametrize("check", files.CHECKS)
def test_tensors_that_come_back_otherwise_are_noticed(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = verdict(check, tmp_path)[0]
    load = cw.load

    def zeros(*arguments: Any, **options: Any) -> Any:
        return {name: torch.zeros_like(tensor) for name, tensor in load(*arguments, **options).items()}

    monkeypatch.setattr(cw, "load", zeros)
    monkeypatch.setattr(cw, "trim", shutil.copy)
    assert (before, verdict(check, tmp_path)[0]) == ("PASS", "FAIL")


FOUND = {"rule": "hidden-sync", "line": diagnosis._line_of("item"), "message": ".item(): 4 ms in every step"}


@pytest.mark.parametrize(
    ("device", "findings", "verdicts", "expected"),
    [
        (CUDA, [FOUND], {}, "PASS"),
        (CUDA, [], {}, "FAIL"),
        (CUDA, [{**FOUND, "line": 1}], {}, "FAIL"),
        (CUDA, [{**FOUND, "rule": "transfer"}], {}, "FAIL"),
        (CUDA, [], {"failed": [{"rule": "hidden-sync", "why": "ValueError"}]}, "FAIL"),
        (CUDA, [], {"abstained": [{"rule": "hidden-sync", "why": "no steps"}]}, "FAIL"),
        (CPU, [], {}, "SKIP"),
        (CPU, [], {"failed": [{"rule": "hidden-sync", "why": "ValueError"}]}, "FAIL"),
    ],
)
def test_what_the_doctor_must_say_of_a_fault(
    device: torch.device,
    findings: list[dict[str, Any]],
    verdicts: dict[str, Any],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = {"findings": findings, "rules": {"failed": [], "abstained": [], **verdicts}}
    monkeypatch.setattr(diagnosis, "_examined", lambda setting, fault: (report, ""))
    (result,) = run_checks([diagnosis.doctor_finds_waiting_for_a_value], Setting(device, tmp_path))
    assert result.verdict == expected


def test_a_rule_for_devices_abstains_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    abstained = [{"rule": "transfer", "why": "no accelerator in use: nothing was copied to a device"}]
    reports = [{"findings": [], "rules": {"failed": [], "abstained": each}} for each in (abstained, [])]
    left = iter(reports)
    monkeypatch.setattr(diagnosis, "_examined", lambda setting, fault: (next(left), ""))
    check = diagnosis.doctor_finds_copies_from_pageable_memory
    assert [verdict(check, tmp_path)[0] for _ in reports] == ["SKIP", "FAIL"]


def test_every_planted_fault_that_must_be_named_has_one_line() -> None:
    lines = Path(str(faulty.__file__)).read_text(encoding="utf-8").splitlines()
    marked = [line.rpartition("# fault: ")[2] for line in lines if "# fault: " in line]
    assert sorted(marked) == ["item", "pageable", "small"]
    assert set(marked) < set(faulty.FAULTS)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator here")
@pytest.mark.parametrize(("words", "said"), [([], "finds no accelerator"), (["--device", "cuda"], "gpu-check: ")])
def test_without_an_accelerator_the_exit_code_is_2(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.md"
    assert command.main([*words, "--report", str(report)]) == 2
    assert said in capsys.readouterr().err
    assert not report.exists()


def test_a_failed_check_is_in_the_exit_code_and_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(setting: Setting) -> str:
        raise AssertionError("found 3, expected 4")

    monkeypatch.setattr(command, "CHECKS", [fails])
    report = tmp_path / "report.md"
    assert command.main(["--device", "cpu", "--report", str(report)]) == 1
    assert "found 3, expected 4" in report.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_whole_check_runs_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.md"
    code = command.main(["--device", "cpu", "--report", str(report)])
    text = report.read_text(encoding="utf-8")
    assert code == 0, text
    lines = re.findall(r"^(PASS|SKIP) +[\d.]+ s  (\w+)", capsys.readouterr().out, re.MULTILINE)
    assert [name for _, name in lines] == [check.__name__ for check in command.CHECKS]
    passed = {name for word, name in lines if word == "PASS"}
    assert {check.__name__ for check in files.CHECKS} < passed
    assert "doctor_changes_and_invents_nothing_in_a_healthy_script" in passed
    assert text.count("## Output of the doctor on") == len(faulty.FAULTS)
