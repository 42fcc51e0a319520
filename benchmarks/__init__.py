"""Measurements of Cordwood against its rivals, run from a checkout: `make bench`, or `cordwood bench codecs`.

The package is not installed. `codecs`, `tensors`, `store`, `feed`, `pack`, `doctor` and `scaling` are the suites, one
folder each: `__main__.py` lists the parts, and a `*_rows.py` file measures one part. Shared by the suites: `harness`
(timing, goals, result files, the page), `data` (what is measured on), `figures` (the numbers that the READMEs and the
pages quote), `check` (a new run compared with the committed one). `gpu` measures nothing: it checks
that all works on an accelerator. `results` has the committed result files.
"""
