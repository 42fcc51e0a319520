"""The benchmark of the doctor: what it costs, what it finds, and whether its promises are kept; one command.

    cordwood bench doctor                 # all of it: writes benchmarks/results/doctor.json and docs/benchmarks.md
    cordwood bench doctor --quick         # a look in some minutes; writes nothing unless told where
    cordwood bench doctor --only cost     # parts whose title or goals contain the word

The scripts are those of `tests/doctor/scripts`, where `cases.py` lists their faults.
"""

import sys
from collections.abc import Sequence

from benchmarks.doctor import cost_rows, healthy_rows, patient_rows
from benchmarks.harness import suite

SUITE = suite.Suite("doctor", __doc__, (cost_rows, patient_rows, healthy_rows))


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every goal that was measured is met, 1 if one was missed or a result was wrong, 2 for wrong use."""
    return suite.main(SUITE, argv)


if __name__ == "__main__":
    sys.exit(main())
