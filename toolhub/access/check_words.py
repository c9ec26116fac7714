"""What can go wrong while a client connects, in words: what happened, and what to do about it. Data, like `clients`.

The keys are the reasons that `toolhub.server.attention` tells; a reason that is not here is shown as "request".
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Text = str | Promise


@dataclass(frozen=True, slots=True)
class Trouble:
    key: str
    happened: Text
    advice: Text


TROUBLES: tuple[Trouble, ...] = (
    Trouble(
        "missing",
        _("A client at your address sent no token."),
        _(
            "Its settings lack the Authorization header, or it looks for a sign-in of its own first. Paste the "
            "settings above once more, whole, and start the client again."
        ),
    ),
    Trouble(
        "scheme",
        _("A client at your address sent an Authorization header that is not “Bearer” and a token."),
        _("The value of the header is the word Bearer, one space, and the token."),
    ),
    Trouble(
        "malformed",
        _("A client at your address sent something that is no token of this server."),
        _(
            "A token begins with thp_ and has 47 characters: perhaps it was cut when it was copied, or the placeholder "
            "is still in its place."
        ),
    ),
    Trouble(
        "unknown",
        _("A client at your address sent a token that this server does not know."),
        _("It may belong to another installation. Make a token here and paste the settings again."),
    ),
    Trouble(
        "revoked",
        _("The client sent a token that was revoked."),
        _("Make a new token here and paste the settings again: an ended token cannot come back."),
    ),
    Trouble(
        "expired",
        _("The client sent a token that has expired."),
        _("Make a new token here and paste the settings again. Choose a longer time on the Tokens page."),
    ),
    Trouble(
        "inactive",
        _("The account of this token is not active."),
        _("Ask whoever runs this server."),
    ),
    Trouble(
        "throttled",
        _("Too many bad tokens came from your address, so it has to wait."),
        _("Stop clients that still use an old token, and try again in a minute."),
    ),
    Trouble(
        "unavailable",
        _("The server cannot look at tokens just now, or has too many connections."),
        _("Try again in a moment. If it stays so, tell whoever runs this server."),
    ),
    Trouble(
        "host",
        _("A client at your address used another name for this server than it has."),
        _("Use exactly the address above. If it is right, the operator has to add the name to TOOLHUB_ALLOWED_HOSTS."),
    ),
    Trouble(
        "origin",
        _("A client at your address runs in a web page that may not use this server."),
        _("The operator can allow that page’s address with TOOLHUB_ALLOWED_ORIGINS."),
    ),
    Trouble(
        "revision",
        _("The client speaks a revision of the protocol that this server does not know."),
        _("Update the client, or look in its settings for another revision: the server knows all that were published."),
    ),
    Trouble(
        "headers",
        _("The headers of the request say something else than its body."),
        _("Something between the client and this server changes requests, or the client has a fault: update it."),
    ),
    Trouble(
        "accept",
        _("A client at your address does not accept what this server answers."),
        _("It must accept application/json and text/event-stream. Choose “Streamable HTTP” in its settings, not SSE."),
    ),
    Trouble(
        "content_type",
        _("A client at your address sends something else than JSON."),
        _("Choose “Streamable HTTP” in its settings."),
    ),
    Trouble(
        "verb",
        _("A client at your address used a method that this address does not have."),
        _("Choose “Streamable HTTP” in its settings, not the older SSE transport."),
    ),
    Trouble("large", _("A request was larger than this server accepts."), _("Ask whoever runs this server.")),
    Trouble(
        "request",
        _("The server did not understand what the client sent."),
        _("Update the client. What the server said to it stands below; it helps whoever runs this server."),
    ),
    Trouble(
        "no_tools",
        _("The client is connected, and there is no tool for it."),
        _("Ask whoever runs this server to grant you tools. They appear in the client by themselves."),
    ),
    Trouble(
        "call",
        _("The client is connected, and its first call failed."),
        _("The Calls page has the call with its arguments and what came back."),
    ),
    Trouble(
        "other",
        _("A client of yours is connected with another token."),
        _("This page waits for the token that it made. If that is the client you mean, all is well."),
    ),
)
