"""Rules on feeding: waiting, workers, transfers."""
