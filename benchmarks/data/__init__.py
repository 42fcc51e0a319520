"""What the suites measure on, and the other formats that several suites compare with.

`photographs.py`, `weights.py` and `text.py` load real data from packages, and `synthetic.py` draws samples from fixed
seeds. `samples.py` makes the samples of stores and `tensors.py` the state dicts and the files of tensors. `rivals.py`
encodes and decodes photographs in other formats.
"""
