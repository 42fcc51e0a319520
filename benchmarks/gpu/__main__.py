"""`python -m benchmarks.gpu`: run all checks, and write the report.

Exit code: 0 if no check failed, 1 if one did, 2 if there is no accelerator or the command is wrong.
"""

import argparse
import faulthandler
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.gpu import copies, diagnosis, files
from benchmarks.gpu.checks import Setting, run_checks
from benchmarks.gpu.report import count_verdicts, describe, render
from benchmarks.harness.environment import commit

ROOT = Path(__file__).parents[2]
_STUCK_SECONDS = 900  # then stderr shows where every thread stands: a check hangs, or the machine is slow
CHECKS = [*copies.CHECKS, *files.CHECKS, *diagnosis.CHECKS]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", help="cpu, cuda, cuda:1, mps, xpu (default: the accelerator that torch finds)")
    parser.add_argument("--report", type=Path, default=Path("gpu-check.md"), help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        device = _device(options.device)
    except (AssertionError, RuntimeError, ValueError) as reason:  # AssertionError: torch is built without CUDA
        print(f"gpu-check: {str(reason).splitlines()[0]}", file=sys.stderr)
        return 2
    facts = {"commit": commit(ROOT)} | describe(device)
    with tempfile.TemporaryDirectory(prefix="cordwood-gpu-") as folder:
        setting = Setting(device, Path(folder))
        results = run_checks(CHECKS, setting, tell=lambda line: print(line, flush=True))
    options.report.write_text(render(results, facts, setting.texts), encoding="utf-8")
    print(f"\n{count_verdicts(results)} on {device}\nthe report to attach to an issue: {options.report}")
    return int(any(result.verdict in ("FAIL", "ERROR") for result in results))


def _device(name: str | None) -> torch.device:
    """The device with its index, tried out."""
    if name is None:
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        if found is None:
            raise ValueError(
                f"torch {torch.__version__} finds no accelerator here, so there is nothing to check; "
                "--device cpu tries the script itself"
            )
        name = found.type
    return torch.empty(1, device=name).device


if __name__ == "__main__":
    faulthandler.dump_traceback_later(_STUCK_SECONDS, repeat=True)
    sys.exit(main())
