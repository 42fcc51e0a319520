"""``cw.save``: pickle an object, lay out the bytes that its tensors reach, write the file.

Reading order:

* ``save`` - the public function; chooses format and target
* ``collect`` - pickles the object and records every view
* ``arena`` - storages that lie over the same memory count as one
* ``pickle_codes`` - writes a few values as pickle opcodes, to fill in offsets and strides afterwards
* ``background`` - runs saves in a thread, one after another

Imports ``layout``, ``content``, ``unpickle``, ``formats``, ``codecs`` and ``common``; used by ``trimming``,
``inspecting`` and ``pickle_module``.
"""
