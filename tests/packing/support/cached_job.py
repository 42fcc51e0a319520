"""A process that opens a store by ``cw.cached``, and prints what it does.

    python -m tests.packing.support.cached_job train.cordwood

It prints "read 17" when it reads item 17, and "done 100 4950" at the end: the number of samples, and their sum. At item
HOLD_AT, a variable of the environment, it waits for a line on its standard input. What it has to say beside that is on
its standard error.
"""

import os
import sys

import cordwood as cw
from cordwood.packing.workers import engine

COUNT = 100


class Numbers:
    """Tells which items are read."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> dict[str, int]:
        print(f"read {number}", flush=True)
        if number == int(os.environ["HOLD_AT"]):
            sys.stdin.readline()
        return {"number": number}


if __name__ == "__main__":
    engine.CHECKPOINT_SECONDS = 0  # what was done when it is killed is kept
    engine._CHECKPOINT_SHARE = 0
    found = cw.cached(Numbers(), sys.argv[1], workers=0, shard_bytes=300)
    print(f"done {len(found)} {sum(sample['number'] for sample in found)}", flush=True)
