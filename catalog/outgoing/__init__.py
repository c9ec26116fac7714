"""HTTP requests of tools: built from arguments, sent with patience, their answers made into content. No ORM."""

from __future__ import annotations
