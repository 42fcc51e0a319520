"""The suite of packing.

`__main__.py` lists the parts in their order: `photo_rows.py`, `overhead_rows.py`, `many_rows.py`, `decoder_rows.py` and
`story_rows.py`. `data.py` makes the folder of photographs, `rivals.py` packs it in other ways, `decoders.py` lists the
libraries that decode images, and `process.py` runs a job that is watched or killed.
"""
