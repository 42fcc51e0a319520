"""The native core: ``_native`` is built from the C files below this one. Only ``cordwood.codecs`` talks to it."""
