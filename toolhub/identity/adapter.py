"""The library's hooks: its providers are the rows of ours, and accounts are ours to find and to make."""

from __future__ import annotations

from allauth.socialaccount.adapter import DefaultSocialAccountAdapter


class Adapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Where the library asks about providers and hands over who signed in."""
