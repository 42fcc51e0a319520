"""Damage: found by ``verify``, told apart by kind, and left behind by ``salvage``."""
