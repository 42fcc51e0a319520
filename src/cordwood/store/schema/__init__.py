"""What a sample is made of: nodes, the fields that they are stored as, and the schema that holds both."""
