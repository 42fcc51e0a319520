"""``cw.save``: ``collect`` finds what to write, ``save`` writes it, ``background`` does so while training goes on."""
