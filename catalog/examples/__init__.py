"""The example catalogue. Importing this package registers its functions: it is the default of TOOLHUB_TOOL_MODULES."""

from __future__ import annotations

from catalog.examples import files, functions, mail, media, tables, weather

__all__ = ["files", "functions", "mail", "media", "tables", "weather"]
