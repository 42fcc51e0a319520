"""Which samples an epoch has, in which order, and which of them a rank gets in which step.

Reading order:

* ``permutation`` - a shuffle that is computed place by place, and the seed of each sample
* ``samplers`` - the order of an epoch: all samples, given indices, weights, or a sampler of torch
* ``sampler_check`` - checks the ``sampler`` argument
* ``ranks`` - the rank of this process, and how many there are
* ``steps`` - the places of an epoch that a rank gets in each step
* ``fingerprints`` - short numbers that identify a dataset or a list of indices, for saved states

Imports ``store``, ``common`` and ``native``; used by ``ahead``, ``augment``, ``batches`` and ``loader``.
"""
