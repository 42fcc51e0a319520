"""Where results go: the first samples settle the schema, the rest becomes shards."""
