"""The audit log in the admin. Django finds the pages here: each module registers the models that it shows."""

from __future__ import annotations

from audit.admin import actions, calls, chain, saved_views

__all__ = ["actions", "calls", "chain", "saved_views"]
