"""Bytes of files: where they come from, zip archives without copies, and how much memory reading may take."""
