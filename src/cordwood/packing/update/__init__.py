"""``cw.pack(update=True)``: brings a store up to date with its source.

Reading order:

* ``update`` - compares, rewrites what changed, then packs what is new
* ``check_items`` - whether a dataset, whose items have no names, still begins with those that were packed
* ``check_schema`` - whether classes and columns of a source still fit the schema of its store
* ``compare_inputs`` - which inputs are unchanged, changed, removed or new
* ``rewrite_shards`` - writes the shards of changed inputs again, and links all others
* ``swap_folders`` - puts the new folder in the place of the old one, also if the process is killed on the way
* ``first_change`` - the first changed input, for the message of a job that must not resume

Imports ``transform``, ``journal``, ``workers``, ``report``, ``sources``, ``store`` and ``common``; used by
``pack_run``.
"""
