"""Work that runs ahead of the training loop.

Reading order:

* ``background`` - a thread that fills a queue
* ``pace`` - how many threads decode and how many batches are kept ready, adapted while an epoch runs
* ``shard_memory`` - whether shards are read from mapped files or copied into memory

Imports ``order``, ``store`` and ``common``; used by ``batches``, ``prefetching``, ``iterator``, ``loader`` and
``doctor``.
"""
