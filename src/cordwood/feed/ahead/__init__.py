"""Running ahead of the consumer: the thread, its pace, and shards held in memory."""
