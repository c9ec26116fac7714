"""The library's hooks for codes and passkeys: seeds are encrypted, and addresses come from TOOLHUB_PUBLIC_URL.

The library does not say whose seed it encrypts. So our own code names the account around every call that stores or
reads one (`seeds_of`): a seed that somebody moved to another account in the database cannot be read there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from allauth.mfa.adapter import DefaultMFAAdapter
from django.conf import settings
from django.contrib.auth.models import User

from catalog import encryption

SITE_NAME = "toolhub"
DEFAULT_PORTS = {"http": 80, "https": 443}
_owner: ContextVar[str | None] = ContextVar("identity_seeds_of", default=None)


@contextmanager
def seeds_of(user_id: int, kind: str) -> Iterator[None]:
    """Encrypt and decrypt, in the block, seeds of this kind of second factor for this account only."""
    token = _owner.set(seed_owner(user_id, kind))
    try:
        yield
    finally:
        _owner.reset(token)


def seed_owner(user_id: int, kind: str) -> str:
    return f"second factor:{kind}:{user_id}"


def relying_party_id() -> str:
    """Return the domain that passkeys are made for: the host of the public address."""
    return (urlsplit(settings.PUBLIC_URL).hostname or "").lower()


def origin() -> str:
    """Return the only web origin at which passkeys are accepted, spelled as browsers do."""
    parts = urlsplit(settings.PUBLIC_URL)
    port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    host = f"[{relying_party_id()}]" if ":" in relying_party_id() else relying_party_id()
    return f"{parts.scheme}://{host}{port}"


class Adapter(DefaultMFAAdapter):  # type: ignore[misc]
    """Where the library asks how to store and name what it makes."""

    def encrypt(self, text: str) -> str:
        return encryption.encrypt(text, self._get_owner())

    def decrypt(self, encrypted_text: str) -> str:
        """Return the seed. Raises DecryptionError, KeysError."""
        return encryption.decrypt(encrypted_text, self._get_owner())

    def _get_owner(self) -> str:
        owner = _owner.get()
        if owner is None:
            raise LookupError("no account is named for this seed: call this inside of seeds_of")
        return owner

    def get_totp_label(self, user: User) -> str:
        return f"{user.get_username()} ({relying_party_id()})"

    def get_totp_issuer(self) -> str:
        return SITE_NAME

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        return {"id": relying_party_id(), "name": SITE_NAME}

    def get_public_key_credential_user_entity(self, user: User) -> dict[str, Any]:
        made: dict[str, Any] = super().get_public_key_credential_user_entity(user)
        return made | {"name": user.get_username(), "display_name": user.get_full_name() or user.get_username()}

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        """Send nothing: the audit log has every change, and not every installation has a mail server."""
