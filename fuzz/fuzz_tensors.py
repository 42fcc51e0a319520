"""Feeds damaged tensor files of every format to the loaders, for a stated time: run by ``make fuzz``.

    python fuzz/fuzz_tensors.py --seconds 60 --seed 1

Every input is written to a file before it is used: after a crash, or anything but success and a FormatError, the file
named at the start holds the input that did it.
"""

import faulthandler
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.kept_input import HANG, main
from tests.tensors.support.mutate import Mutator
from tests.tensors.support.samples import feed, samples

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


if __name__ == "__main__":
    main(__doc__, "last-input", run, lambda kept: feed(kept.read_bytes()))
