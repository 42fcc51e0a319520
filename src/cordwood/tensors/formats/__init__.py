"""Readers and writers of the file formats. docs/format/tensors.md describes ``.cord``; the others are torch's and
safetensors' own.

Reading order:

* ``suffixes`` - the format that a file name asks for
* ``detect`` - the format that a file has, by its content; opens it
* ``shared`` - names and numbers of the formats, and access to storages, for readers and writers
* ``pt_reader`` and ``pt_writer`` - torch's zip archives
* ``legacy_reader`` - torch's format before 1.6
* ``safetensors_reader`` - ``.safetensors`` files
* ``cord_records`` - storages to records, through the codecs
* ``cord_writer`` and ``cord_reader`` - ``.cord`` files
* ``truncated`` - opens a file that lost its end, as far as it goes

Imports ``io``, ``layout``, ``content``, ``unpickle``, ``codecs``, ``common`` and ``native``; used by ``saving``,
``loading``, ``trimming``, ``inspecting``, ``pickle_module`` and ``sources``.
"""
