"""Tools of another MCP server: connections, their pool, and one call."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from catalog.runners import hints
from catalog.runners.base import FormWords, Rows, Runner
from catalog.runners.destinations import Destination
from catalog.runners.upstream_mcp.settings import Settings


def _destinations(settings: Settings) -> Iterator[Destination]:
    if settings.connection is not None:
        yield settings.connection.destination


RUNNER = Runner(
    name="upstream_mcp",
    title=_("Tool of an upstream server"),
    about=_("Calls a tool of an upstream server. Usually imported on the page of the upstream server."),
    settings=Settings,
    prepare="catalog.runners.upstream_mcp.runner.prepare",
    form=FormWords(
        main=("upstream", "tool"),
        hidden=frozenset({"connection", "mirrors"}),
        labels={
            "upstream": _("Upstream"),
            "tool": _("Tool"),
            **hints.LABELS,
        },
        choices={"upstream": Rows("catalog.Upstream", "name")},
    ),
    secret_destinations=_destinations,
    default_hints=True,
    position=50,
)
