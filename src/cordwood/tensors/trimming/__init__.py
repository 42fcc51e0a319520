"""``cw.trim``: a file written again without what nobody can reach, and verified."""
