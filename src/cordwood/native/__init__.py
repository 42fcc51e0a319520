"""The native core. ``_native`` is built from the C files in these folders; ``_native.pyi`` has its types.

A call from Python passes them in this order:

1. ``python/``: Python objects -> pointers and sizes, checked. Only the files here use Python objects; they release the
   GIL before the work begins, and return errors as tuples.
2. ``store/``: a sample number -> its row and frames in a mapped shard.
3. ``frame/``: the bytes of a frame -> its header, blocks and values; and back, by the best chain of a plan.
4. ``entropy/``: entropy-coded blocks -> bytes; and back.
5. ``coding/``: blocks -> byte planes: zstd and lz4, tiles, planes, palettes; and back. ``predict/``: codes ->
   residuals, and back.
6. ``image/``: a decoded image -> a part of it, resized and normalised.
7. ``base/``: what all of them need: bounded reading, errors, checksums, threads. ``base/cw.h`` declares it.

Everything that comes from a file is checked before it is used. Imports nothing; used by ``codecs``, ``tensors``,
``store``, ``packing`` and ``feed``, which check arguments and turn error tuples into exceptions.
"""
