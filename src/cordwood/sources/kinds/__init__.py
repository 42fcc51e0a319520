"""The dataset formats that ``cw.pack`` reads, one class of ``Source`` per file.

Reading order:

* ``image_folder`` - a folder of images, with class folders or without
* ``manifest`` - a CSV or JSON-lines file that lists images
* ``manifest_rows`` - reads the rows of a manifest
* ``manifest_columns`` - the types of its columns
* ``tensor_folder`` - a folder of tensor files, one sample per file
* ``sample_file`` - one file that holds all samples
* ``dataset`` - Python objects: datasets, samples in memory, iterables
* ``columns`` - the rows of a list of samples, or of columns of equal length

A manifest takes three files: the source, the syntax of its rows, the types of its columns.

Imports ``base``, ``files``, ``importing``, ``pickling``, ``tensors`` and ``common``; used by ``registry`` and
``find_source``. The docstring of ``cordwood.sources`` says what a new format needs.
"""
