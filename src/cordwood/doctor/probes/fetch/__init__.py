"""Probes inside data loaders: what it costs to make a batch, in the training process and in worker processes.

Reading order:

* ``install`` - patches the loader, also inside its workers, and collects their figures
* ``watch`` - times the fetches of one process
* ``closer_look`` - profiles or samples single fetches

Imports ``probes`` and ``evidence``; used by ``probes.deep``.
"""
