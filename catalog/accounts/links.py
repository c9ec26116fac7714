"""Links with which a person connects an account. A link is no credential: it only names the person it was made for.

Whoever opens one signs in as usual, and the page refuses everybody else. So nobody can have another person connect an
account that then belongs to whoever asked for the link (client/elicitation, "Phishing").
"""

from __future__ import annotations

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

SALT = "catalog.accounts.links"
MARK_CHARACTERS = 32


def make(user_id: int, name: str) -> str:
    """Return the link for this user to connect the account of this name."""
    return f"{settings.PUBLIC_URL}/accounts/{name}/{_mark(user_id, name)}/"


def is_for(user_id: int, name: str, mark: str) -> bool:
    """Return whether a link with this mark was made for this user."""
    return constant_time_compare(mark, _mark(user_id, name))


def _mark(user_id: int, name: str) -> str:
    return salted_hmac(SALT, f"{user_id} {name}", algorithm="sha256").hexdigest()[:MARK_CHARACTERS]
