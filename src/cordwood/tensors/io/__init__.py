"""The bytes of tensor files: where they come from, zip archives, and a limit on memory.

Reading order:

* ``source`` - a path, file object or buffer, read at any offset or mapped
* ``memory_budget`` - limits how much memory a file can make the reader reserve
* ``zip_directory`` - the entries of a zip archive, checked
* ``zip_reader`` - the contents of the entries
* ``zip_writer`` - writes an archive in one pass, with aligned data

Imports ``common`` and ``native``; used by ``formats``, ``loading``, ``trimming``, ``inspecting``, ``pickle_module`` and
``sources``.
"""
