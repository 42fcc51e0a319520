"""The suite of tensor files.

`__main__.py` lists the parts in their order: `slice_rows.py`, `state_rows.py`, `many_rows.py`, `size_rows.py`,
`small_rows.py`, `safetensors_rows.py`, `trim_rows.py` and `memory_rows.py`. `seeks.py` counts the seeks of
`torch.load`, `memory.py` measures the memory of one job in a process of its own.
"""
