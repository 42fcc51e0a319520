"""The files of a store: manifest, shards and their index, rows, plans, the lock, folders in the making."""
