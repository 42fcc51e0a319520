"""The formats of tensor files, a reader and a writer per file; ``detect`` tells which one a file has."""
