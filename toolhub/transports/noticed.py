"""A client that was turned away at the door, for the page on which its owner may be waiting for it."""

from __future__ import annotations

from toolhub.access.bearer import BadToken
from toolhub.server import attention, interest
from toolhub.transports.guard import Refused


def turned_away(address: str, refused: Exception) -> None:
    """Costs nothing unless somebody connects a client just now."""
    if interest.keys and isinstance(refused, Refused | BadToken):
        user_id, credential = refused.owner or (None, None)
        attention.turned_away(address, refused.code, user_id, credential)
