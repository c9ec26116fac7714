from __future__ import annotations

import pytest

from toolhub.wire import versions


@pytest.mark.parametrize("requested", versions.HANDSHAKE)
def test_a_known_handshake_revision_is_kept(requested: str) -> None:
    assert versions.negotiate(requested) == requested


@pytest.mark.parametrize("requested", ["2026-07-28", "1999-01-01", "zzz", "", None, 5, ["2025-11-25"]])
def test_anything_else_is_answered_with_the_newest_handshake_revision(requested: object) -> None:
    assert versions.negotiate(requested) == "2025-11-25"


def test_revisions_are_compared_by_age() -> None:
    assert versions.is_at_least("2026-07-28", "2025-06-18")
    assert versions.is_at_least("2025-06-18", "2025-06-18")
    assert not versions.is_at_least("2025-03-26", "2025-06-18")
