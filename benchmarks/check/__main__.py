"""Did it get worse? Run suites again, and compare their ratios with the committed results, the noise considered.

cordwood bench check                             # every suite, as long as it takes
cordwood bench check --quick codecs              # a look: only what is far worse counts
cordwood bench check --results DIR codecs        # compare result files that are there already, run nothing
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.check.comparison import compare, told
from benchmarks.harness.methods import TITLES

ROOT = Path(__file__).resolve().parent.parent.parent
COMMITTED = ROOT / "benchmarks" / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """0 if nothing got worse, 1 if something did or a suite failed, 2 for wrong use."""
    parser = argparse.ArgumentParser(prog="cordwood bench check", description=__doc__.partition("\n\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(TITLES)}; all, if none is named")
    parser.add_argument("--quick", action="store_true", help="quick runs: only what is far worse counts")
    parser.add_argument("--results", type=Path, metavar="DIR", help="compare these files, and run nothing")
    parser.add_argument("--committed", type=Path, metavar="DIR", default=COMMITTED, help="what to compare with")
    options = parser.parse_args(argv)
    unknown = [name for name in options.suites if name not in TITLES]
    if unknown:
        parser.error(f"there is no suite {' or '.join(unknown)}; there are {', '.join(TITLES)}")
    worse = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.suites or TITLES:
            committed = options.committed / f"{name}.json"
            if not committed.is_file():
                print(f"\n{TITLES[name]}: no committed result to compare with")
                continue
            found = (options.results or Path(folder)) / f"{name}.json"
            if not options.results:
                run_suite(name, found, quick=options.quick)
            if not found.is_file():
                print(f"\n{TITLES[name]}: no result in {found.parent}")
                worse += not options.results  # a suite that ran and left nothing fell over, or had a wrong result
                continue
            before, after = (json.loads(file.read_text()) for file in (committed, found))
            changes = list(compare(before, after))
            print(told(TITLES[name], before, after, changes))
            worse += sum(change.word == "worse" for change in changes)
    print(f"\n{worse} got worse" if worse else "\nnothing got worse")
    return int(worse > 0)


def run_suite(name: str, target: Path, *, quick: bool) -> None:
    """Run a suite into a file, in a process of its own; what it says of its goals is not asked here."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if quick else []), "--json", str(target)]
    subprocess.run(command, cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
