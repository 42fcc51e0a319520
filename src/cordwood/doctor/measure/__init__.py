"""Measuring fairly: pairs of runs, the machine, and a quiet stdout."""
