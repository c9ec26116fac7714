"""The example catalogue. Importing this package registers its functions: it is the default of TOOLHUB_TOOL_MODULES."""

from __future__ import annotations

from catalog.examples import functions

__all__ = ["functions"]
