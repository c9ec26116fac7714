"""Other MCP servers whose tools the catalogue offers: how to reach them, what they offer, and what changed there."""

from __future__ import annotations
