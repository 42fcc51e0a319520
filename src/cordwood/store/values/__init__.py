"""Single values on their way in and out: accepted types, arrays, rounding, named tuples, anything else."""
