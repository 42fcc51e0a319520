"""Rules on what is wrong, or wasted, rather than slow."""
