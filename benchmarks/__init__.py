"""Measurements of Cordwood against its rivals, run from a checkout: `make bench`, or `cordwood bench codecs`.

The package is not installed. `codecs.py`, `tensors.py`, `store.py`, `feed.py`, `pack.py`, `doctor.py` and `scaling.py`
are the suites; a `*_rows.py` file measures one part of a suite, most of them against the table in `goals.py`;
`suite.py` runs the parts; `harness.py` times; `report.py` turns the result files into `docs/benchmarks.md`, and
`charts.py` the tables that are curves into its pictures; `check.py` compares a new run with the committed results.
"""
