"""``cw.trim``: writes a checkpoint again without the bytes that no tensor reaches. Classes named in the file are not
imported.

Reading order:

* ``trim`` - the public function
* ``rewrite`` - the storages of the file, laid out anew
* ``pickle_edits`` - changes offsets, strides and sizes inside the pickle, and leaves all other bytes as they are
* ``verify`` - compares the written file with the original

Imports ``io``, ``layout``, ``content``, ``unpickle``, ``formats``, ``saving`` and ``common``; nothing in the package
uses it.
"""
