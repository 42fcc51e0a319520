"""`make gpu-check`: run everything that uses an accelerator once, on a machine that has one, and write a report.

The project is developed on machines without an accelerator, where these paths are tested with stand-ins.
`python -m benchmarks.gpu --device cpu` runs the same checks on the CPU, as far as they make sense there.

`__main__.py` is the command, `checks.py` runs checks and notes what came of them, and `report.py` writes the report.
`copies.py` checks pinned memory, streams, `cw.prefetch` and `cw.Loader`, `files.py` saving and loading, and
`diagnosis.py` `cw.Timer` and the doctor, which examines `faulty.py`, a training script with faults to choose from.
A new check is a function in one of these three files, listed at the end of its file.
"""
