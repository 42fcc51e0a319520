"""The user's transform: one callable form for every way to give one, and an identity that a resumed job compares.

Reading order:

* ``transform`` - turns a function, a ``module:name``, or functions per field into one object that workers call
* ``batches`` - collates samples for a batched transform, and cuts its result into samples
* ``identity`` - a name and a hash of the transform: its code, and the values and functions that it uses
* ``function_source`` - the source text, closure and globals of a function, for the hash

Imports ``sources``, ``store`` and ``common``; used by ``journal``, ``workers``, ``transfer``, ``update`` and the three
modules above them.
"""
