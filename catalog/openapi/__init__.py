"""OpenAPI 3.0 and 3.1 documents as a source of tools: parsed within limits, proposed, imported by choice."""
