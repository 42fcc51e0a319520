"""The benchmark of stores: every row of what they must reach, rivals in the same run, one command.

    cordwood bench store                 # all of it: writes benchmarks/results/store.json and docs/benchmarks.md
    cordwood bench store --quick         # a look in a minute or two; writes nothing unless told where
    cordwood bench store --only memory   # parts whose title or goals contain the word

Stores go to a folder below `--cache`, so that is on the disk that is measured. How to install the rivals is told in
`benchmarks/store/rivals/entrants.py`.
"""

import sys
from collections.abc import Sequence

from benchmarks.harness import suite
from benchmarks.store import memory_rows, photo_rows, single_rows, small_rows, write_rows

SUITE = suite.Suite(
    "store",
    __doc__,
    (photo_rows, single_rows, small_rows, write_rows, memory_rows),
)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every goal that was measured is met, 1 if one was missed or a result was wrong, 2 for wrong use."""
    return suite.main(SUITE, argv)


if __name__ == "__main__":
    sys.exit(main())
