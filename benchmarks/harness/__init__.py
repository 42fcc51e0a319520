"""What every suite uses: timing, goals, result files, and the page made from them.

In reading order: `timing.py` takes times in turns, `outcome.py` is the result of one part, `packages.py` fetches files
from wheels, `goals.py` lists what must be reached, `environment.py` describes the machine, `methods.py` says how each
suite measures, `charts.py` draws curves, `report.py` writes `docs/benchmarks.md`, and `suite.py` runs the parts.
"""
