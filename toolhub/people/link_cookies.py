"""Cookies that take the token of a link out of the address: no Referer, bookmark or later log line has it.

The link itself changes nothing: a program that previews links uses none up. The token stays with the browser, which has
it anyway, and is not written to the database with the session.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

MAX_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class LinkCookie:
    """The cookie of one kind of link; `path` is the only page that reads it."""

    name: str
    path: str
    max_age: int

    def move(self, value: str) -> HttpResponse:
        """Return the answer to a link: a redirect to the page, with the token in the cookie."""
        response = HttpResponseRedirect(self.path)
        response.set_cookie(
            self.name,
            value[:MAX_CHARACTERS],
            max_age=self.max_age,
            path=self.path,
            httponly=True,
            secure=settings.SESSION_COOKIE_SECURE,
            samesite="Lax",  # Strict cookies are not sent after a redirect that began in a mail
        )
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def read(self, request: HttpRequest) -> str:
        return request.COOKIES.get(self.name, "")[:MAX_CHARACTERS]

    def remove(self, response: HttpResponse) -> None:
        response.delete_cookie(self.name, path=self.path, samesite="Lax")
