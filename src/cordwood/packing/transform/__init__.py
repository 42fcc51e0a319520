"""The user's transform: prepared, called, batched, and identified so that a job can be resumed."""
