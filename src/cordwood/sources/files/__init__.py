"""Files as inputs: listed, sniffed at, and read as images or arrays."""
