"""What a tensor file holds: dtypes, the memory behind storages, and the content to be written."""
