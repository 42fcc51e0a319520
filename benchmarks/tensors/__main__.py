"""The benchmark of tensor files: every row of what they must reach, rivals in the same run, one command.

    cordwood bench tensors                 # all of it: writes benchmarks/results/tensors.json and docs/benchmarks.md
    cordwood bench tensors --quick         # a look in a minute or two; writes nothing unless told where
    cordwood bench tensors --only trim     # parts whose title or goals contain the word

Files go to a folder below `--cache`, so that is on the disk that is measured.
"""

import sys
from collections.abc import Sequence

from benchmarks.harness import suite
from benchmarks.tensors import (
    many_rows,
    memory_rows,
    safetensors_rows,
    size_rows,
    slice_rows,
    small_rows,
    state_rows,
    trim_rows,
)

SUITE = suite.Suite(
    "tensors",
    __doc__,
    (
        slice_rows,
        state_rows,
        many_rows,
        size_rows,
        small_rows,
        safetensors_rows,
        trim_rows,
        memory_rows,
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every goal that was measured is met, 1 if one was missed or a result was wrong, 2 for wrong use."""
    return suite.main(SUITE, argv)


if __name__ == "__main__":
    sys.exit(main())
