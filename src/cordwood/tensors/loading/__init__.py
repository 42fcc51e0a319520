"""``cw.load`` and ``cw.peek``: read all tensors of a file, or those that are asked for.

Reading order:

* ``load`` - the public function for whole files
* ``storages`` - reads or maps storages, and moves them to their device
* ``select`` - tensors by name or pattern, without the rest
* ``peek`` - names and shapes first, single tensors on request

Imports ``io``, ``content``, ``unpickle``, ``formats`` and ``common``; used by ``inspecting`` and ``pickle_module``.
"""
