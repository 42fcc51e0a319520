"""The suite of the codecs.

`__main__.py` lists the parts in their order: `photo_rows.py`, `batch_rows.py`, `weight_rows.py`, `integer_rows.py` and
`encoding_rows.py`.
"""
