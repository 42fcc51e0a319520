"""Checks of `cw.Timer`, and of the doctor's rules for devices on `faulty.py`: what it finds there, and at which line.

On the CPU the doctor runs, too, and its rules for devices must abstain.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import cordwood as cw
from benchmarks.gpu.checks import Check, Setting, SkippedCheck
from cordwood.doctor.measure.hardware import has_bfloat16, tf32_is_off

_SCRIPT = Path(__file__).with_name("faulty.py")
_TIMEOUT_SECONDS = 280
_FOR_DEVICES = ("transfer", "cudnn-benchmark")
_FOUND = 1  # the doctor's exit code if something is worth changing


def timer_with_sync_waits_for_the_device(setting: Setting) -> str:
    if setting.device.type == "cpu":
        raise SkippedCheck("the CPU has nothing to wait for")
    work = setting.work(50.0)
    setting.wait()
    event, timer = torch.Event(setting.device.type), cw.Timer()
    with timer.start():
        work()
    queueing = timer.diff
    with timer.start(sync=True):
        work()
        event.record()
    assert event.query(), "the block ended before the device was done"
    return f"{1e3 * timer.diff:.1f} ms with sync=True, {1e3 * queueing:.1f} ms without"


def doctor_changes_and_invents_nothing_in_a_healthy_script(setting: Setting) -> str:
    bare = _run([sys.executable, str(_SCRIPT), "none", str(setting.device)], setting)
    assert bare.returncode == 0, f"the script ended with {bare.returncode} without the doctor\n{bare.stderr}"
    report, printed = _examined(setting, "none")
    assert printed == bare.stdout, f"the script printed {printed!r} under the doctor, {bare.stdout!r} without it"
    for rule in ("transfer", "hidden-sync"):
        findings = _findings(report, rule, setting)
        assert not findings, f"a false finding: {findings[0]['message']}"
    return ""


def doctor_finds_copies_from_pageable_memory(setting: Setting) -> str:
    return _found(setting, "pageable", "transfer", may_pass=not setting.copies_in_background)


def doctor_finds_many_small_copies(setting: Setting) -> str:
    return _found(setting, "small", "transfer", may_pass=not setting.copies_in_background)


def doctor_finds_waiting_for_a_value(setting: Setting) -> str:
    return _found(setting, "item", "hidden-sync")


def doctor_finds_float32_where_autocast_is_faster(setting: Setting) -> str:
    is_cpu = setting.device.type == "cpu"
    if not is_cpu and not has_bfloat16(setting.device) and not tf32_is_off(setting.device):
        raise SkippedCheck("this device has neither bfloat16 nor TF32, or torch does not say so")
    return _found(setting, "float32", "precision", has_line=False)


def doctor_replays_convolutions_with_cudnn_benchmark(setting: Setting) -> str:
    if setting.device.type not in ("cuda", "cpu"):
        raise SkippedCheck("cuDNN is for CUDA devices")
    # cuDNN's own choice may be the fastest already.
    return _found(setting, "convolution", "cudnn-benchmark", may_pass=True, has_line=False)


def _found(setting: Setting, fault: str, rule: str, *, may_pass: bool = False, has_line: bool = True) -> str:
    """What the rule says of the fault, which is none on the CPU."""
    report, _ = _examined(setting, fault)
    findings = _findings(report, rule, setting)
    if setting.device.type == "cpu":
        raise SkippedCheck(f"on the CPU there is no such fault; the doctor ran, and {rule} did not fail")
    if not findings and may_pass:
        return "judged, and nothing was faster"
    assert findings, f"{rule} found nothing; the doctor's report is below"
    if has_line:
        number, lines = _line_of(fault), [finding["line"] for finding in findings]
        assert number in lines, f"{rule} names lines {lines}, the fault is in line {number}"
    return str(findings[0]["message"])


def _findings(report: dict[str, Any], rule: str, setting: Setting) -> list[dict[str, Any]]:
    """What a rule found. It must have judged; on the CPU, a rule for devices must abstain."""
    unjudged = {
        outcome["rule"]: f"{verdict}: {outcome['why']}"
        for verdict in ("failed", "abstained")
        for outcome in report["rules"][verdict]
    }
    if setting.device.type == "cpu" and rule in _FOR_DEVICES:
        assert unjudged.get(rule, "").startswith("abstained: no accelerator"), f"{rule} did not abstain on the CPU"
    else:
        assert rule not in unjudged, f"{rule} {unjudged[rule]}"
    return [finding for finding in report["findings"] if finding["rule"] == rule]


def _examined(setting: Setting, fault: str) -> tuple[dict[str, Any], str]:
    """The doctor's report as JSON, and what the script printed."""
    path = setting.folder / f"doctor-{fault}.json"
    seconds = "1" if setting.device.type == "cpu" else "10"
    words = [sys.executable, "-m", "cordwood", "doctor", "--seconds", seconds, "--json", str(path)]
    done = _run([*words, str(_SCRIPT), fault, str(setting.device)], setting)
    setting.texts[f"the doctor on `faulty.py {fault}`"] = done.stderr
    assert done.returncode in (0, _FOUND), f"the doctor ended with {done.returncode}\n{done.stderr}"
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report, done.stdout


def _run(words: list[str], setting: Setting) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, cwd=setting.folder, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)


def _line_of(fault: str) -> int:
    lines = _SCRIPT.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# fault: {fault}"))


CHECKS: list[Check] = [
    timer_with_sync_waits_for_the_device,
    doctor_changes_and_invents_nothing_in_a_healthy_script,
    doctor_finds_copies_from_pageable_memory,
    doctor_finds_many_small_copies,
    doctor_finds_waiting_for_a_value,
    doctor_finds_float32_where_autocast_is_faster,
    doctor_replays_convolutions_with_cudnn_benchmark,
]
