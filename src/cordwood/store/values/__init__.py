"""Single values on their way into a store and out of it.

Reading order:

* ``accepted_types`` - which types a sample may hold, and the errors for all others
* ``arrays`` - tensors and NumPy arrays to the plain arrays that frames are made of, and back
* ``rounding`` - floats rounded to a narrower dtype (``store_as=``), and the largest error of that
* ``namedtuples`` - named tuple classes made from names in a file, without importing anything
* ``any_value`` - a value of any structure as bytes, for fields whose structure differs from sample to sample

Imports ``schema``, ``codecs`` and ``common``; used by ``writing``, ``reading``, ``dataset``, ``packing`` and ``feed``.
"""
