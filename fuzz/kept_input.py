"""What fuzzers share that keep every input on the disk: options, and what is said at the end."""

import argparse
import faulthandler
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

HANG = 120  # seconds in which a hundred cases must be done

Run = Callable[[float, int, Path], tuple[int, Counter[str]]]


def main(description: str | None, name: str, run: Run, again: Callable[[Path], str]) -> None:
    """`run` feeds for some seconds, with a seed, what it keeps at a path of that name; `again` feeds what was kept."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path, metavar="PATH", help="feed only the input that was kept there")
    options = parser.parse_args()
    faulthandler.enable()
    if options.again:
        print(f"no fault: {again(options.again)}")
        return
    last = Path(tempfile.mkdtemp(prefix="cordwood-fuzz-")) / name
    print(f"seed {options.seed}; each input is kept in {last}", flush=True)
    try:
        cases, counts = run(options.seconds, options.seed, last)
    except Exception:
        print(f"FAULT: the input is in {last}; feed it again with --again", file=sys.stderr, flush=True)
        raise
    shutil.rmtree(last.parent)
    for outcome, count in counts.most_common():
        print(f"{count:9,}  {outcome}")
    print(f"{cases:9,}  cases in {options.seconds:.0f} s, no fault")
