"""What every room needs, and what needs no room: text for people, checked arguments, files, seeds."""
