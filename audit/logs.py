"""The log of the record. Chains, counts and reasons; never what a call carried."""

from __future__ import annotations

import logging

logger = logging.getLogger("audit")
