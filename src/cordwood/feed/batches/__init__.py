"""Making batches: epochs, collation, padding, and the user's function on threads or processes."""
