"""The report of all checks, in Markdown, to be attached to an issue."""

import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence

import torch

from benchmarks.gpu.checks import CheckResult
from cordwood.doctor import describe_environment


def count_verdicts(results: Sequence[CheckResult]) -> str:
    """Such as `12 PASS, 1 SKIP`."""
    counts = Counter(result.verdict for result in results)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("PASS", "FAIL", "ERROR", "SKIP") if counts[verdict])


def describe(device: torch.device) -> dict[str, object]:
    """Versions, machine, device and driver. Asked before the checks: a device that has failed may not answer."""
    facts = describe_environment() | {"device": str(device)}
    if device.type in ("cuda", "xpu"):
        facts["properties"] = str(getattr(torch, device.type).get_device_properties(device))
    if device.type == "cuda":
        facts["CUDA"] = str(torch.version.cuda)
        facts["ROCm"] = str(torch.version.hip)
        facts["cuDNN"] = str(torch.backends.cudnn.version())
        facts["driver"] = _nvidia_driver()
    if device.type == "mps":
        facts["macOS"] = platform.mac_ver()[0]
    return facts


def render(results: Sequence[CheckResult], facts: Mapping[str, object], texts: Mapping[str, str]) -> str:
    """The whole report: versions, a line per check, tracebacks, and the full texts."""
    parts = ["# Cordwood: check of an accelerator", "\n".join(f"* {name}: {value}" for name, value in facts.items())]
    parts += ["## Checks", _fenced("\n".join(map(str, results))), count_verdicts(results)]
    for result in results:
        if result.trace:
            parts += [f"## {result.verdict}: {result.name}", _fenced(result.trace)]
    for title, text in texts.items():
        parts += [f"## Output of {title}", _fenced(text)]
    return "\n\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    return f"````text\n{text.rstrip()}\n````"


def _nvidia_driver() -> str:
    command = shutil.which("nvidia-smi")
    if command is None:
        return "unknown (no nvidia-smi)"
    words = [command, "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return done.stdout.strip().replace("\n", ", ") or f"unknown ({done.stderr.strip()})"
