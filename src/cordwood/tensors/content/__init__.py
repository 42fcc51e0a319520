"""What a tensor file holds, independent of its format.

Reading order:

* ``dtypes`` - torch's dtypes and the names that the codecs have for them
* ``storage_memory`` - allocates storages, and gives NumPy access to their bytes
* ``file_content`` - a pickle and its storages, ready to be written: made by ``saving`` and ``trimming``, written by
  ``formats``

Imports ``layout`` and ``codecs``; used by ``unpickle``, ``formats``, ``saving``, ``loading``, ``trimming``,
``pickle_module`` and ``store``.
"""
