"""The processes that do the work: the engine, the pool, the wire between, and what a worker runs."""
