"""From samples to shards: infer, settle, prepare, flatten, encode, write."""
