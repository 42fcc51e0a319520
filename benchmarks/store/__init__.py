"""The suite of stores.

`__main__.py` lists the parts in their order: `photo_rows.py`, `single_rows.py`, `small_rows.py`, `write_rows.py` and
`memory_rows.py`. `contest.py` packs the same samples with every contender and times their reading, `ours.py` is
Cordwood's contender, `rivals` has the others, and `memory.py` measures the memory of a process that reads.
"""
