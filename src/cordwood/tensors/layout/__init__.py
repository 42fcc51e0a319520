"""Which bytes of a storage can be reached, which tensors overlap, and how to write them without the rest."""
