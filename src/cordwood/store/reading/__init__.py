"""From shards to samples: choose, map, decode, rebuild, assemble."""
