"""Arithmetic on views: which bytes of a storage its tensors reach, and where these bytes go when the rest is left out.

Reading order:

* ``overlap`` - which views share bytes, decided exactly
* ``restride`` - moves views closer together without changing what they share
* ``copies`` - the strided copies from the old storage to the new one
* ``reachable`` - the new layout of a storage: combines the three modules above
* ``sharing`` - which tensors of a file share bytes, for ``cw.inspect``

Imports nothing of Cordwood; used by ``content``, ``unpickle``, ``formats``, ``saving``, ``trimming`` and
``inspecting``.
"""
