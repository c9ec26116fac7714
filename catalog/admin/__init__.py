"""The admin of the catalogue. Django discovers the pages here: each module registers the models that it shows."""

from __future__ import annotations

from catalog.admin import catalogue, secrets, upstreams

__all__ = ["catalogue", "secrets", "upstreams"]
