"""Moves batches to an accelerator while it computes.

Reading order:

* ``nesting`` - applies a function to every tensor of a nested batch
* ``streams`` - streams, events and pinned memory of an accelerator
* ``mover`` - starts the copies of a batch in the background thread, and hands the batch over when it is used
* ``host_memory`` - the memory that batches are decoded into: pooled, or pinned if they go to a device

Imports ``store``; used by ``batches``, ``prefetching``, ``iterator`` and ``loader``.
"""
