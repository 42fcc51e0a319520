"""From shards to samples and batches.

Reading order:

* ``selection`` - which samples a dataset shows, in which order
* ``plans`` - loads a codec plan when the first frame names it
* ``shards`` - the shards of one or several stores: which shard a sample is in, mapped or copied into memory
* ``native_errors`` - errors of the native reader as exceptions that name the shard, the sample and the field
* ``buffers`` - memory for batches, reused when the last tensor over it is gone
* ``image_treatment`` - what happens to an image while it is decoded: crop, resize, normalise, channels last
* ``reader`` - rows, columns and arrays of samples, in one native call per batch
* ``encoded_images`` - images that are stored as JPEG or PNG files, decoded on threads
* ``rebuild`` - puts values back into the structure of a sample
* ``assemble`` - samples and collated batches out of all of the above
* ``read_plan`` - what a dataset reads: which samples, which fields, which named tuples

Imports ``schema``, ``values``, ``format``, ``codecs``, ``images``, ``tensors``, ``common`` and ``native``; used by
``dataset``, ``opening``, ``checking``, ``inspecting``, ``packing`` and ``feed``.
"""
