"""The other ways to keep a dataset.

`entrants.py` lists them and says how to install them. `indexed.py` has those that read samples by number, `loaders.py`
and `ffcv.py` those with a loader of their own.
"""
