"""The suite of scaling: how cost grows with samples, sizes, batches and threads.

`__main__.py` lists the parts in their order: `sample_rows.py`, `size_rows.py`, `batch_rows.py` and `thread_rows.py`.
`curves.py` collects figures along an axis, `limits.py` measures what the machine itself can do.
"""
