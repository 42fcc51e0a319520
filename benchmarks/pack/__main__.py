"""The benchmark of packing: every row of what it must reach, rivals in the same run, one command.

    cordwood bench pack                 # all of it: writes benchmarks/results/pack.json and docs/benchmarks.md
    cordwood bench pack --quick         # a look in a minute or two; writes nothing unless told where
    cordwood bench pack --only decoders # parts whose title or goals contain the word

Files go to a folder below `--cache`, so that is on the disk that is measured. `make bench` installs the rivals;
jpeg4py loads a library of the system (this is the command for Debian):

    apt-get install libturbojpeg0
"""

import sys
from collections.abc import Sequence

from benchmarks.harness import suite
from benchmarks.pack import decoder_rows, many_rows, overhead_rows, photo_rows, story_rows

SUITE = suite.Suite(
    "pack",
    __doc__,
    (photo_rows, overhead_rows, many_rows, decoder_rows, story_rows),
)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every goal that was measured is met, 1 if one was missed or a result was wrong, 2 for wrong use."""
    return suite.main(SUITE, argv)


if __name__ == "__main__":
    sys.exit(main())
