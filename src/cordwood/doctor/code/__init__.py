"""Reading the user's code: loops, loaders, layouts, and who holds what."""
