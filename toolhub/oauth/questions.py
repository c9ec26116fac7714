"""Open questions to a person: the answer to each counts once, in the browser that was asked, for an hour."""

from __future__ import annotations

import secrets
import time

from django.http import HttpRequest

from toolhub.access.models import digest_of

SECONDS = 3600
MAX_OPEN = 8
"""Open questions of one browser; the oldest one makes room."""
_SESSION_KEY = "oauth_questions"


def remember(request: HttpRequest, subject: str) -> str:
    """Return a nonce that the answer to the question about this subject has to bring."""
    now = int(time.time())
    kept = {
        nonce: (digest, at)
        for nonce, (digest, at) in request.session.get(_SESSION_KEY, {}).items()
        if now - at < SECONDS
    }
    for nonce in list(kept)[: max(0, len(kept) - MAX_OPEN + 1)]:
        del kept[nonce]
    nonce = secrets.token_urlsafe(16)
    kept[nonce] = (digest_of(subject), now)
    request.session[_SESSION_KEY] = kept
    return nonce


def is_answered(request: HttpRequest, subject: str) -> bool:
    """Return whether this request answers the question about this subject; it cannot be answered again."""
    kept = dict(request.session.get(_SESSION_KEY, {}))
    digest, at = kept.pop(request.POST.get("nonce", ""), ("", 0))
    request.session[_SESSION_KEY] = kept
    return bool(digest == digest_of(subject) and time.time() - at < SECONDS)
