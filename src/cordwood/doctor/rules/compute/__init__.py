"""Rules on the step itself: syncs, layouts, precision."""
