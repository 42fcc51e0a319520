"""Probes inside of data loaders."""
