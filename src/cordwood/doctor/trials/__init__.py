"""Tries changes of data loading before a rule advises them. The user's loader and generators stay as they are.

Reading order:

* ``loader`` - other numbers of workers
* ``iterator`` - one iterator instead of one per batch
* ``whole_batches`` - whole batches of a dataset in memory
* ``whole_batches_change`` - the lines of code for that
* ``pack_part`` - the part of a dataset's work that can be packed
* ``pack`` - training from a packed store
* ``pack_change`` - the command and the lines of code for that
* ``copy`` - pinned memory, or one copy instead of many

Imports ``evidence``, ``code``, ``measure``, ``feed``, ``packing``, ``store`` and ``common``; used by ``rules.data``.
"""
