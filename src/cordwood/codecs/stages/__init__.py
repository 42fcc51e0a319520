"""The stages that a plan chains, one per file: value, prediction, planes, coder, in this order, one of each at most.

Reading order:

* ``base`` - the base class of a stage, and the settings of the native encoder with their defaults
* ``narrow`` - value stage for integers: distances from the minimum, in as few bytes as possible
* ``palette`` - value stage for floats with few distinct values: codes of 8 or 16 bits
* ``predict`` - residuals against neighbouring elements
* ``planes`` - separates the bytes of wide elements
* ``entropy`` - coder: Huffman or ANS with static tables
* ``zstd`` - coder: Zstandard
* ``lz4`` - coder: LZ4
* ``raw`` - coder: no compression

Imports ``formula``; used by ``chain``, ``plan`` and ``choosing``. The docstring of ``cordwood.codecs`` says what a new
stage needs.
"""
