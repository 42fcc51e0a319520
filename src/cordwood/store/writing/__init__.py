"""From samples to shards.

Reading order:

* ``options`` - checks the writer's options, and compares them with those of an existing store
* ``infer`` - the schema that fits the first samples
* ``flatten`` - takes a sample apart: arrays for frames, bytes for columns, and which fields are absent or None
* ``prepare`` - a sample in the form that the encoder takes: flattened, rounded, labels and images checked
* ``first_samples`` - keeps samples until there are enough to fix the schema and to choose the codec plans
* ``encode`` - samples to chunks, and a chunk to frames in one native call
* ``shard_statistics`` - the statistics of a shard's fields, for its footer
* ``open_shard`` - one shard while it is written, and the sequence of shards
* ``shard_copy`` - stores made of the shards of others, and samples copied without decoding them
* ``later_plans`` - chooses plans anew where later samples are of another kind than the first ones
* ``appender`` - samples or encoded parts to the shards of a store, on threads; used by ``cw.Writer`` and ``cw.pack``
* ``batch_rows`` - cuts a collated batch into samples, for ``Writer.extend``

Imports ``schema``, ``values``, ``format``, ``codecs``, ``images``, ``common`` and ``native``; used by ``writer``,
``opening``, ``checking`` and ``packing``.
"""
