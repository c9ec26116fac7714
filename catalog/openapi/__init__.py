"""OpenAPI 3.0 and 3.1 documents as a source of tools: read, bounded, turned into proposals, imported when chosen."""
