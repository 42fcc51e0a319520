"""``cw.verify`` and ``cw.salvage``: find damage in a store, and copy the good samples into a new one.

Reading order:

* ``damage`` - one piece of damage, and the list of them
* ``survey`` - everything but the shards: reads manifest, index and plans as far as they can be read
* ``frame_check`` - decodes frames to see whether they can be decoded
* ``shard_check`` - checks one shard to its last byte, and reports which samples are good
* ``verify`` - checks a whole store
* ``salvage`` - writes a new store of the good samples

Imports ``schema``, ``format``, ``reading``, ``writing``, ``codecs``, ``common`` and ``native``; used by
``inspecting``, ``packing`` and ``cli``.
"""
