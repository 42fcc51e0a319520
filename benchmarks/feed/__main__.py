"""The benchmark of the Loader: every row of what it must reach, rivals in the same run, one command.

    cordwood bench feed                  # all of it: writes benchmarks/results/feed.json and docs/benchmarks.md
    cordwood bench feed --quick          # a look in a minute or two; writes nothing unless told where
    cordwood bench feed --only training  # parts whose title or goals contain the word

Stores go to a folder below `--cache`, so that is on the disk that is measured. How to install the rivals is told in
`benchmarks/store/rivals/entrants.py`.
"""

import sys
from collections.abc import Sequence

from benchmarks.feed import cold_rows, memory_rows, photo_rows, small_rows, start_rows, training_rows
from benchmarks.harness import suite

SUITE = suite.Suite(
    "feed",
    __doc__,
    (photo_rows, cold_rows, small_rows, start_rows, memory_rows, training_rows),
)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every goal that was measured is met, 1 if one was missed or a result was wrong, 2 for wrong use."""
    return suite.main(SUITE, argv)


if __name__ == "__main__":
    sys.exit(main())
