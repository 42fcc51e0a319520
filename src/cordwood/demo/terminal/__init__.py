"""The demo in a terminal."""
