"""The way of a batch to a device: pinned memory, streams, the mover."""
