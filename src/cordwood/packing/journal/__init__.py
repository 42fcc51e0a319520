"""What a packing job writes down to be resumed: the job, its inputs, shards, first samples and failures."""
