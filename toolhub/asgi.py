"""The ASGI application that Daphne serves: Django is set up here, `toolhub.routing` does the rest."""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import connections

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")
django.setup(set_prefix=False)

# The consumers need Django's applications to be loaded.
from toolhub.hub import Hub  # noqa: E402
from toolhub.routing import Router  # noqa: E402
from toolhub.transports.asgi import Application  # noqa: E402


class Handler(ASGIHandler):
    """Django's handler, whose requests leave no connection to the database behind.

    Each request has a thread of its own, so that a connection which is kept for the next one (CONN_MAX_AGE) would only
    wait for the garbage collector: 60 pages left 60 of them open (measured), and PostgreSQL has 100 places.
    """

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request, then close the connections of its thread; also when its client leaves."""
        try:
            await super().handle(scope, receive, send)
        finally:
            await asyncio.shield(sync_to_async(connections.close_all)())


hub = Hub()
hub.install()
application = Router(cast("Application", Handler()), hub)
