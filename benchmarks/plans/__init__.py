"""The suite of codec plans: samples in unlucky orders, and small samples.

`__main__.py` lists the parts in their order: `sorted_rows.py`, `order_rows.py`, `photo_rows.py`, `text_rows.py`,
`small_rows.py` and `tiny_rows.py`. `orders.py` has the samples and their orders, and `packing.py` packs them.
`previous.py` keeps the bytes that an earlier version wrote, in `previous.json`. `rounds.py` is the process that packs
and reads photographs with one version of the package, and `revision.py` builds another version for it.
"""
