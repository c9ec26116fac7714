"""Texts of tokens, codes and client secrets: 256 random bits behind a prefix, by which logs recognise and hide them."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

ACCESS_PREFIX, REFRESH_PREFIX, CODE_PREFIX, SECRET_PREFIX = "tho_", "thr_", "thc_", "ths_"


def new_access_token(request: Any = None, refresh_token: bool = False) -> str:
    return ACCESS_PREFIX + secrets.token_urlsafe(32)


def new_refresh_token(request: Any = None) -> str:
    return REFRESH_PREFIX + secrets.token_urlsafe(32)


def new_code() -> str:
    return CODE_PREFIX + secrets.token_urlsafe(32)


def new_device_code() -> str:
    return CODE_PREFIX + secrets.token_urlsafe(32)


def new_client_secret() -> str:
    return SECRET_PREFIX + secrets.token_urlsafe(32)


def seal_with(token: str, values: dict[str, Any]) -> str:
    """Encrypt JSON so that only the holder of this token can read it; the database has no more than its digest."""
    return _cipher(token).encrypt(json.dumps(values).encode()).decode()


def open_with(token: str, sealed: str) -> dict[str, Any] | None:
    """Return what was sealed with this token, or None."""
    try:
        values: dict[str, Any] = json.loads(_cipher(token).decrypt(sealed.encode()))
    except InvalidToken:
        return None
    return values


def _cipher(token: str) -> Fernet:
    # The token has 256 random bits: a plain hash makes a key of it.
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"toolhub.oauth.tokens:" + token.encode()).digest()))
