"""What a sample of a store is made of: a tree of containers and values, and what the caller asked for each field.

Reading order:

* ``node`` - one container or value of the tree, and its JSON form in ``store.json``
* ``field`` - ``cw.Field``: what a caller may ask for one field (goal, class names, narrower floats, encoded images)
* ``schema`` - the whole tree: the name of every value, and whether it is kept as a frame or as a column of the row

Imports ``codecs`` and ``common``; used by every other part of ``store``, by ``packing``
and by ``feed``.
"""
