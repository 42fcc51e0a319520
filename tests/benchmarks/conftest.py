"""The benchmarks are no installed package: they are imported from the checkout, wherever pytest was started."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
