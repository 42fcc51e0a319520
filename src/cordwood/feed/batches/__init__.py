"""Makes the batches of an epoch.

Reading order:

* ``epoch`` - the batches of one epoch of one rank, in order
* ``maker`` - a batch out of the store, by one native call where possible
* ``collate`` - the rules of the ``collate`` argument
* ``padding`` - arrays of different shapes in one tensor
* ``sample_batch`` - collates whole samples, like torch's ``default_collate``
* ``sample_threads`` - ``sample_transform`` on threads
* ``sample_processes`` - ``sample_transform`` in worker processes

Imports ``order``, ``device``, ``ahead``, ``store``, ``codecs`` and ``common``; used by ``iterator`` and ``loader``.
"""
