"""Files as inputs: find them, recognise them, read them.

Reading order:

* ``sniff`` - what a file or folder holds, from its first bytes
* ``links`` - which symbolic links below a folder are files of it, and what is wrong with the others
* ``listing`` - all files below a folder, in an order that is the same on every machine
* ``image_file`` - reads one image file as a tensor, a PIL image or bytes
* ``numpy_file`` - reads ``.npy`` and ``.npz`` files without pickles

Imports ``base``, ``images`` and ``tensors``; used by ``kinds`` and ``registry``.
"""
