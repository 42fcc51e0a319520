"""``cw.merge`` and ``cw.export``: from stores to a store, and from a store to files.

Reading order:

* ``merge`` - joins stores by linking their shards; parts of one job become one complete job
* ``export`` - writes one file per sample
* ``export_names`` - the names of these files

Imports ``transform``, ``journal``, ``store``, ``tensors``, ``codecs`` and ``common``; used by ``cli``.
"""
