"""Read-only queries of databases that the operator names."""
