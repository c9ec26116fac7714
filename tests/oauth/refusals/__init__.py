"""The rows of the table of refusals, by the part of this server that refuses."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in ("authorization", "clients", "devices", "resource", "rows", "tokens"))
)
