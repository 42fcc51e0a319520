"""``pack(update=True)``: what changed, which shards are written again, and the swap of the folders."""
