"""What a packing job tells: progress, rate, estimates, the summary."""
