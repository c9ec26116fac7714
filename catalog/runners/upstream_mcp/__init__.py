"""Tools of another MCP server: connections, their pool, and one call."""
