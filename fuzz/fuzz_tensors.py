"""Feeds damaged tensor files of every format to the loaders, for a stated time: run by ``make fuzz``.

    python fuzz/fuzz_tensors.py --seconds 60 --seed 1

Every input is written to a file before it is used: after a crash, or anything but success and a FormatError, the file
named at the start holds the input that did it.
"""

import argparse
import faulthandler
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.tensors.mutate import Mutator
from tests.tensors.samples import feed, samples

HANG = 120  # seconds in which a hundred cases must be done
ROUNDS = 4  # a damaged file that still loads is damaged further, so many times


def run(seconds: float, seed: int, last: Path) -> tuple[int, Counter[str]]:
    """Cases, and what they came to."""
    mutator = Mutator(seed)
    good = list(samples().values())
    counts: Counter[str] = Counter()
    start, cases = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        data = mutator.random.choice(good)
        for _ in range(ROUNDS):
            if cases % 100 == 0:
                faulthandler.dump_traceback_later(HANG, exit=True)
            data = mutator.mutate(data)
            last.write_bytes(data)
            outcome = feed(data)
            counts[outcome] += 1
            cases += 1
            if outcome != "loaded":
                break
    faulthandler.cancel_dump_traceback_later()
    return cases, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path, metavar="FILE", help="feed only the input that this file kept")
    options = parser.parse_args()
    faulthandler.enable()
    if options.again:
        print(f"no fault: {feed(options.again.read_bytes())}")
        return
    last = Path(tempfile.mkdtemp(prefix="cordwood-fuzz-")) / "last-input"
    print(f"seed {options.seed}, {len(samples())} good files; each input is kept in {last}", flush=True)
    try:
        cases, counts = run(options.seconds, options.seed, last)
    except Exception:
        print(f"FAULT: the input is in {last}; feed it again with --again", file=sys.stderr, flush=True)
        raise
    last.unlink(missing_ok=True)
    last.parent.rmdir()
    for name, count in counts.most_common():
        print(f"{count:9,}  {name}")
    print(f"{cases:9,}  cases in {options.seconds:.0f} s, no fault")


if __name__ == "__main__":
    main()
