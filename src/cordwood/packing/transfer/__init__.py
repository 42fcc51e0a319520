"""From store to store and out of it: merge and export."""
