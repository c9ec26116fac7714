"""An open page's socket, as a browser that is signed in would open it."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from tests.transports.sockets import AsgiSocket

ORIGIN = "http://localhost:8000"


class Window(AsgiSocket):
    """A socket between an open page and the application."""

    def __init__(self, wire: Any, key: str, **headers: str | None) -> None:
        """Underscores of a header stand for dashes."""
        plain = {
            "host": "localhost:8000",
            "origin": ORIGIN,
            "cookie": f"other=1; {settings.SESSION_COOKIE_NAME}={key}",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        super().__init__(wire.application, "/ws/live", ["192.0.2.9", 9], plain)
        self.start()

    async def opened(self) -> Window:
        assert await self.next() == {"type": "websocket.accept"}
        return self

    def send(self, message: Any) -> None:
        self.text(message if isinstance(message, str) else json.dumps(message))

    async def message(self, **like: Any) -> dict[str, Any]:
        """The next message that has these values."""
        while True:
            event = await self.next()
            assert event["type"] == "websocket.send", event
            found: dict[str, Any] = json.loads(event["text"])
            if all(found.get(name) == value for name, value in like.items()):
                return found


def sign_in(user: User) -> str:
    """The key of a session in a browser."""
    browser = Client()
    browser.force_login(user)
    return browser.cookies[settings.SESSION_COOKIE_NAME].value
