"""``cw.inspect`` of a tensor file: its tensors, what they share, wasted bytes, required classes, and checksums.

Reading order:

* ``inspect`` - the public function; combines the other modules
* ``storage_usage`` - how much of each storage any tensor reaches
* ``checkpoint_kind`` - tensor, state_dict, training checkpoint or whole model
* ``importable`` - whether a class that the file names can be imported here, found out without importing it
* ``checksums`` - compares the contents with their checksums
* ``result`` - the result object
* ``text`` - the result as a table for a terminal
* ``html`` - the result for a notebook

Imports ``io``, ``layout``, ``unpickle``, ``formats``, ``saving``, ``loading`` and ``common``; used by ``store``,
``doctor`` and ``cli``.
"""
