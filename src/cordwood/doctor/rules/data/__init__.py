"""Rules about loading data, one per file.

Reading order:

* ``data_starved`` - training waits for its data
* ``workers`` - another number of workers would be faster
* ``iterator_per_batch`` - ``next(iter(loader))`` in every step
* ``whole_batches`` - tensors in memory are split into samples and stacked again
* ``cacheable_preprocessing`` - preprocessing that gives the same samples in every epoch
* ``transfer`` - copies to a device that could be faster

Imports ``evidence``, ``code``, ``measure``, ``trials``, ``wording``, ``store`` and ``common``; used by ``rules``.
"""
