"""The ASGI application that Daphne serves: Django is set up here, `toolhub.routing` does the rest."""

from __future__ import annotations

import os
from typing import cast

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")
django = get_asgi_application()

# The consumers need Django's applications to be loaded.
from toolhub.hub import Hub  # noqa: E402
from toolhub.routing import Router  # noqa: E402
from toolhub.transports.asgi import Application  # noqa: E402

hub = Hub()
hub.install()
application = Router(cast("Application", django), hub)
