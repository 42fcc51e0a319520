"""Reads the user's source code and running objects, to name the line that a finding is about. Runs none of it.

Reading order:

* ``syntax`` - parses a file; functions, loops and names around a line
* ``loader_call`` - the call that makes a DataLoader, and where its dataset comes from
* ``layout_origin`` - the line that made a tensor which is older than the step
* ``layout_fix`` - the user's line with ``.contiguous()`` in the right place
* ``python_loops`` - the loops that a step spends its time in
* ``numpy_work`` - the lines where NumPy works on values taken out of a tensor
* ``tensor_holders`` - the variable, attribute or list that keeps a tensor alive, and the line that adds to it
* ``parameter_owners`` - the modules that a parameter belongs to
* ``live_objects`` - all living objects of a type
* ``ignores`` - ``# cordwood: ignore[...]`` comments and the table in ``pyproject.toml``

Imports ``evidence`` and ``common``; used by ``probes.deep``, ``replay``, ``trials``, ``rules`` and ``report``.
"""
