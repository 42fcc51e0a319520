"""Probes that are always on: the phases of a step."""
