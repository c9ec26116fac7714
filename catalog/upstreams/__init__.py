"""Other MCP servers whose tools the catalogue imports: connection, list of tools, and changes."""

from __future__ import annotations
