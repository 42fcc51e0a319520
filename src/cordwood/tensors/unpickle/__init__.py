"""Pickles read without running them: the machine, its opcodes, what is allowed, and what it rebuilds."""
