"""The files of a store on disk, and the checks on reading them. docs/format/store.md describes the bytes.

Reading order:

* ``manifest`` - ``store.json``: schema, fields and options
* ``plan_files`` - the codec plans in ``plans/``, named by a hash of their bytes
* ``rows`` - the fixed-width row of a sample: where its frames are, and its numbers
* ``shard_file`` - header, footer and trailer of a shard
* ``shard_table`` - how a shard's rows are packed, and which plan each field's frames are read with
* ``shard_index`` - ``shards.bin``: one record per shard, rebuilt from the shards if it is damaged
* ``row_search`` - finds the rows of a shard that lost its trailer
* ``lock`` - one writer at a time
* ``folder`` - the size of the folder; creates, resumes, locks and cleans it for a writer
* ``new_folder`` - a folder that gets its name only when it is complete
* ``unfinished`` - whether a store is still being packed

Imports ``schema``, ``codecs``, ``common`` and ``native``; used by ``writing``, ``reading``, ``checking``,
``inspecting``, ``writer``, ``opening`` and ``packing``.
"""
