"""Measurements of Cordwood against its rivals, run from a checkout: `cordwood bench codecs`, `tensors` or `store`.

The package is not installed. `codecs.py`, `tensors.py` and `store.py` are the commands; a `*_rows.py` file measures one
part of the table in `goals.py`; `suite.py` runs the parts; `harness.py` times; `report.py` turns the result files into
`docs/benchmarks.md`.
"""
