"""JSON Schema: rules for stored schemas, and validation of arguments and results."""
