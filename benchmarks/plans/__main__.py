"""The benchmark of codec plans: sorted and mixed samples, small samples, rivals in the same run, one command.

    cordwood bench plans                   # all of it: writes benchmarks/results/plans.json and docs/benchmarks.md
    cordwood bench plans --quick           # a look in a minute; writes nothing without --json
    cordwood bench plans --only texts      # parts whose title or goals contain the word
    cordwood bench plans --against v1.2.0  # also builds this git revision, and takes turns with it on photographs

Bytes are exact and the same on every machine; times are taken in turns.
"""

import sys
from collections.abc import Sequence

from benchmarks.harness import suite
from benchmarks.plans import order_rows, photo_rows, small_rows, sorted_rows, text_rows, tiny_rows

SUITE = suite.Suite(
    "plans",
    __doc__,
    (sorted_rows, order_rows, photo_rows, text_rows, small_rows, tiny_rows),
    takes_revision=True,
)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every goal that was measured is met, 1 if one was missed or a result was wrong, 2 for wrong use."""
    return suite.main(SUITE, argv)


if __name__ == "__main__":
    sys.exit(main())
