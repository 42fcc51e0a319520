"""Chooses a plan for arrays of one kind: samples in, a menu of chains out.

Reading order:

* ``sample`` - many or large arrays -> at most 2 MiB of them to try chains on
* ``palettes`` - finds the palettes that floats can have
* ``trial`` - tries chains on the same arrays, and keeps the sizes
* ``candidates`` - the chains that are worth a trial
* ``owning`` - chains with tables and dictionaries of their own
* ``chooser`` - the plan

Imports ``plan``, ``chain``, ``stages``, ``formula``, ``assets``, ``dtypes``, ``common`` and ``native``; used by
``frame``.
"""
