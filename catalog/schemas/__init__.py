"""JSON Schema: what may be saved as one, and arguments and results checked against it."""
