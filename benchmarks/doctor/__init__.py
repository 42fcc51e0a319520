"""The suite of the doctor.

`__main__.py` lists the parts in their order: `cost_rows.py`, `patient_rows.py` and `healthy_rows.py`. `runs.py` runs a
script under the doctor in a process of its own.
"""
