"""Probes that cost something, and are attached for some steps only."""
