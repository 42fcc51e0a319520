"""Probes record what a running script does. They never change its results, and are all removed at the end.

Reading order:

* ``patches`` - replaces attributes, and puts them back in reverse order
* ``thread_stacks`` - the Python stack of another thread
* ``phases`` - probes that are on in every step
* ``deep`` - probes that are on in a few steps
* ``fetch`` - probes inside data loaders and their workers

``phases`` imports ``deep``, and ``deep`` imports ``fetch``. Imports ``evidence``, ``code``, ``measure``, ``feed`` and
``tensors``; used by ``run``.
"""
