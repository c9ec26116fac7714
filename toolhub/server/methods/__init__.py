"""The MCP methods, one module for each family; `toolhub.server.dispatch` has the table."""
