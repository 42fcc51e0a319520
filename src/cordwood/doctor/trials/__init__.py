"""Advice tried before it is given, one trial per file."""
