"""Completion for shells: the words, and the scripts."""
