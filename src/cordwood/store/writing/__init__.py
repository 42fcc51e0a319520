"""From samples to shards.

Reading order:

* ``options`` - checks the writer's options, and compares them with those of an existing store
* ``infer`` - the schema that fits the first samples
* ``flatten`` - takes a sample apart: arrays for frames, bytes for columns, and which fields are absent or None
* ``prepare`` - a sample in the form that the encoder takes: flattened, rounded, labels and images checked
* ``first_samples`` - keeps samples until there are enough to fix the schema and to choose the codec plans
* ``encode`` - a chunk of samples to frames, in one native call
* ``shard_statistics`` - the statistics of a shard's fields, for its footer
* ``open_shard`` - one shard while it is written
* ``pipeline`` - chunks of samples to finished shards, on threads
* ``batch_rows`` - cuts a collated batch into samples, for ``Writer.extend``
* ``shard_copy`` - copies samples from shard to shard without decoding them

Imports ``schema``, ``values``, ``format``, ``codecs``, ``images``, ``common`` and ``native``; used by ``writer``,
``opening``, ``checking`` and ``packing``.
"""
