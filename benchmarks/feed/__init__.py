"""The suite of the Loader.

`__main__.py` lists the parts in their order: `photo_rows.py`, `cold_rows.py`, `small_rows.py`, `start_rows.py`,
`memory_rows.py` and `training_rows.py`. `ours.py` is Cordwood's contender, `turns.py` times whole epochs in turns, and
`training.py` trains a small network.
"""
