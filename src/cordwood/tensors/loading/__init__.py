"""``cw.load`` and ``cw.peek``: storages are located, chosen and read."""
