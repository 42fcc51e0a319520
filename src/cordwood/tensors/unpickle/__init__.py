"""Reads pickles without Python's unpickler: every opcode is checked, and no code named in a file runs.

Reading order:

* ``machine`` - the stack machine; the caller decides what globals, calls and storages become
* ``opcode_handlers`` - what each opcode does to the machine
* ``hash_guard`` - refuses dict keys that are expensive to hash
* ``work_budget`` - limits the work that a file can cause
* ``describe`` - they become descriptions: for ``peek``, ``inspect`` and ``trim``
* ``allowlist`` - they become tensors and plain containers, all else is refused: for ``load``
* ``rebuild`` - rebuilds tensors, with every number from the file checked
* ``renamed`` - names that moved since a file was written
* ``tensor_names`` - the dotted name of each tensor in a description
* ``tensor_info`` - shape, dtype and storage of a tensor in a description
* ``references`` - which tensors and other objects refer to a storage

Imports ``layout``, ``content`` and ``common``; used by ``formats``, ``loading``, ``trimming``, ``inspecting`` and
``pickle_module``.
"""
