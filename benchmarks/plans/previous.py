"""The bytes that an earlier version wrote for the shuffled cases, as constants to compare with.

    python -m benchmarks.plans.previous v1.2.0      # builds this git revision, measures it, and records it

Bytes depend on the samples and on the version, not on the machine, so they need to be measured only once.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.outcome import Settings
from benchmarks.harness.suite import ROOT
from benchmarks.plans.orders import first_table, further_orders
from benchmarks.plans.packing import packed_bytes
from benchmarks.plans.revision import built

FILE = Path(__file__).with_name("previous.json")


def recorded(settings: Settings) -> tuple[dict[str, int], str]:
    """Bytes of the shuffled store by the name of its case, and a line that says what wrote them."""
    if not FILE.exists():
        return {}, "no version was recorded"
    data: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return data["quick" if settings.quick else "full"], f"Cordwood {data['version']}, commit {data['commit']}"


def main(words: Sequence[str]) -> int:
    """Record a revision; without one, print what the version at hand writes."""
    if not words:
        print(json.dumps(measured()))
        return 0
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=12", f"{words[0]}^{{commit}}"]
    commit = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        source = built(commit, Path(folder))
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.plans.previous"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    FILE.write_text(json.dumps({"commit": commit} | json.loads(done.stdout), indent=1) + "\n", encoding="utf-8")
    return 0


def measured() -> dict[str, Any]:
    """Bytes of the shuffled cases, of a quick run and of a full one."""
    import cordwood

    found: dict[str, Any] = {"version": cordwood.__version__}
    with tempfile.TemporaryDirectory() as folder:
        for word, quick in (("quick", True), ("full", False)):
            settings = Settings.choose(ROOT / ".bench-cache", quick=quick)
            cases = [*first_table(settings), *further_orders(settings)]
            found[word] = {case.name: packed_bytes(case.shuffled(), Path(folder)) for case in cases}
            print(f"{word}: {len(found[word])} stores", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
