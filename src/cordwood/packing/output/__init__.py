"""Takes the results of the workers, in the order of their inputs, and writes the store.

Reading order:

* ``empty_source`` - refuses a source without inputs before anything is written
* ``first_samples`` - the inputs whose samples wait until schema and plans are fixed, and the look at others
* ``accounting`` - tracks which inputs the written samples came from, and the position of the job
* ``store_output`` - the store of a job: its appender, the inputs of its shards, checkpoints

Imports ``journal``, ``workers``, ``sources`` and ``store``; used by ``update``, ``dry_run`` and ``pack_run``.
"""
