"""Measurements of Cordwood against its rivals, run from a checkout: `cordwood bench codecs`.

The package is not installed. `codecs.py` is the one command; a `*_rows.py` file measures one part of the table in
`goals.py`; `harness.py` times; `report.py` turns a result file into `docs/benchmarks.md`.
"""
