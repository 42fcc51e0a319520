"""Probes: what watches a running script."""
