"""Rules on the shape of layers."""
