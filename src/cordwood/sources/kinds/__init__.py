"""The kinds of sources, one per file."""
