"""Admin pages of the audit log. Django discovers them here: each module registers the models that it shows."""

from __future__ import annotations

from audit.admin import actions, calls, chain, saved_views

__all__ = ["actions", "calls", "chain", "saved_views"]
