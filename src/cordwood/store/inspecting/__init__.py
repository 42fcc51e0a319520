"""``cw.inspect`` of a store: its fields, plans and sizes, statistics of its values, and thumbnails.

Reading order:

* ``inspect`` - adds up what manifest, index and footers say
* ``sampling`` - reads some samples for the statistics and the pictures
* ``value_statistics`` - range, mean, spread, zeros and NaNs of a field
* ``thumbnails`` - small PNG pictures of arrays that look like images
* ``result`` - the result object
* ``text`` - the result as tables for a terminal
* ``html`` - the result for a notebook

Imports ``schema``, ``format``, ``reading``, ``checking``, ``tensors``, ``codecs`` and ``common``; used by ``dataset``,
``packing`` and ``cli``.
"""
