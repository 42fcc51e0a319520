"""The acts of the demo, one per file."""
