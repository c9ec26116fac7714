"""Rejections of bearer tokens, with the status and the headers of the answer.

BadToken                 401  unknown, malformed, expired, revoked, of an inactive user: one answer for all of them
├── TooManyBadTokens     429  this address sent too many of them
└── CheckUnavailable     503  the database does not answer and the token was not checked recently
    └── TooManyLookups   429  too many tokens of this address are waiting to be looked up; 503: of all addresses
"""

from __future__ import annotations

from django.conf import settings

RESOURCE_METADATA_URL = f"{settings.PUBLIC_URL}/.well-known/oauth-protected-resource/mcp"
DEFAULT_SCOPE = "mcp"
PLACEHOLDER = "thp_YOUR_TOKEN"
"""What the Connect page shows before there is a token."""


class BadToken(Exception):
    """A rejected token; `reason` is for the log and the audit log, the caller gets only the status and the headers."""

    status = 401
    sentence = "A valid access token is required: sign in with OAuth, or send Authorization: Bearer thp_..."
    """For the client."""

    def __init__(
        self, reason: str, *, sent: bool = True, code: str = "unknown", owner: tuple[int, str] | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent
        self.code = code
        """One word for the page on which the token's owner connects a client."""
        self.owner = owner
        """The owner, when known: the user's primary key and the credential's id."""

    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": challenge(sent=self.sent)}


class TooManyBadTokens(BadToken):
    status = 429

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many invalid tokens from this address; try again in {seconds} s", code="throttled")
        self.seconds = seconds
        self.sentence = (
            "Too many invalid tokens came from this address. Remove old tokens from your clients, "
            f"and try again in {seconds} s."
        )

    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.seconds)}


class CheckUnavailable(BadToken):
    status = 503
    sentence = "The access token cannot be checked now. Try again in 5 s."

    def __init__(self) -> None:
        super().__init__(self.sentence, code="unavailable")

    def headers(self) -> dict[str, str]:
        return {"Retry-After": "5"}


class TooManyLookups(CheckUnavailable):
    def __init__(self, *, from_address: bool) -> None:
        whose = "from this address" if from_address else "at this server"
        self.status = 429 if from_address else 503
        self.sentence = f"Too many access tokens {whose} are waiting to be checked. Try again in 5 s."
        super().__init__()


def scope_challenge(scope: str) -> str:
    """Return the value of WWW-Authenticate for a token without this scope: all scopes that it should have then."""
    return (
        'Bearer realm="toolhub", error="insufficient_scope", error_description="The tool is not read-only", '
        f'resource_metadata="{RESOURCE_METADATA_URL}", scope="{DEFAULT_SCOPE} {scope}"'
    )


def challenge(*, sent: bool) -> str:
    """Return the value of WWW-Authenticate, which leads a client to the sign-in (RFC 9728, section 5.1).

    RFC 6750 names an error only when a token was sent.
    """
    error = 'error="invalid_token", error_description="The access token is not valid", ' if sent else ""
    return f'Bearer realm="toolhub", {error}resource_metadata="{RESOURCE_METADATA_URL}", scope="{DEFAULT_SCOPE}"'
