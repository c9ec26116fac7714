"""HTTP APIs: requests built from arguments, results built from responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.runners import hints, networks, secret_refs
from catalog.runners.base import Effect, FormWords, Runner
from catalog.runners.destinations import Destination, origin
from catalog.runners.http_api.settings import Settings


def _method(settings: Any) -> str:
    return str(settings.get("method", "GET")) if isinstance(settings, Mapping) else "GET"


def _effect(settings: Mapping[str, Any]) -> Effect:
    method = _method(settings)
    changes = {"GET": False, "HEAD": False, "PUT": True, "PATCH": True, "DELETE": True}.get(method)
    return Effect(method, changes, destroys=method == "DELETE")


def _advice(row: Any) -> Iterator[str]:
    method = _method(row.settings)
    if row.idempotent is False and method in {"PUT", "DELETE"}:
        yield gettext("The tool is declared not idempotent, but %(word)s requests are idempotent.") % {"word": method}
    if row.open_world is False:
        yield gettext(
            "The tool declares no external systems, but it calls an API. Clients treat external content with care."
        )
    yield from secret_refs.advise_on_plain_values(
        row.settings, "static_headers", "static_query", "static_cookies", "static_body"
    )


def _destinations(settings: Settings) -> Iterator[Destination]:
    yield origin(settings.base)


def _blocked(settings: Settings | None) -> str | None:
    return networks.find_block(settings.base) if settings is not None else None


RUNNER = Runner(
    name="http_api",
    title=_("HTTP API"),
    about=_("A request to a web service. The settings say where each argument goes."),
    settings=Settings,
    prepare="catalog.runners.http_api.runner.prepare",
    form=FormWords(
        main=("method", "url", "query", "headers", "body", "static_headers"),
        labels={
            "method": _("Method"),
            "query": _("Query"),
            "query_lists": _("Query lists"),
            "headers": _("Headers"),
            "cookies": _("Cookies"),
            "body": _("Body"),
            "body_argument": _("Body argument"),
            "body_format": _("Body format"),
            "content_type": _("Content type"),
            "files": _("Files"),
            "argument": _("Argument"),
            "filename": _("Filename"),
            "filename_argument": _("Filename argument"),
            "static_query": _("Static query"),
            "static_headers": _("Static headers"),
            "static_cookies": _("Static cookies"),
            "static_body": _("Static body"),
            "response": _("Response"),
            "select": _("Select"),
            "keep": _("Keep"),
            "timeout": _("Timeout"),
            "max_response_bytes": _("Max response bytes"),
            "retries": _("Retries"),
            "break_after": _("Break after"),
            "break_seconds": _("Break seconds"),
            "max_concurrent": _("Max concurrent"),
            "wait_seconds": _("Wait seconds"),
            "url": _("URL"),
            **secret_refs.LABELS,
            **hints.LABELS,
        },
    ),
    blocked=_blocked,
    effect=_effect,
    advice=_advice,
    secret_destinations=_destinations,
    bounds=frozenset(
        {"response", "select", "keep", "hints", "timeout", "max_response_bytes", "retries"}
        | {"break_after", "break_seconds", "max_concurrent", "wait_seconds"}
    ),
    default_hints=True,
    position=20,
)
