"""The benchmark of the codecs: every row of what they must reach, rivals in the same run, one command.

cordwood bench codecs                  # all of it: writes benchmarks/results/codecs.json and docs/benchmarks.md
cordwood bench codecs --quick          # a look in a minute or two; writes nothing unless told where
cordwood bench codecs --only weights   # parts whose title or goals contain the word
"""

import sys
from collections.abc import Sequence

from benchmarks.codecs import batch_rows, encoding_rows, integer_rows, photo_rows, weight_rows
from benchmarks.harness import suite

SUITE = suite.Suite("codecs", __doc__, (photo_rows, batch_rows, weight_rows, integer_rows, encoding_rows))


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every goal that was measured is met, 1 if one was missed or a result was wrong, 2 for wrong use."""
    return suite.main(SUITE, argv)


if __name__ == "__main__":
    sys.exit(main())
