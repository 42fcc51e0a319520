"""The demo as text.

Reading order:

* ``columns`` - paragraphs and tables of at most 80 columns
* ``text`` - one function per act

Imports ``report`` and ``common``; used by ``run`` and ``page``.
"""
