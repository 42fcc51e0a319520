"""The verbs of the command, one per file: parse, call the library, print."""
