"""Connected clients on all processes: disconnect one, or revoke its token.

Also who holds connections, and what the limits refused: close the connections of one person from one address. All of
these changes are logged.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from audit.actions import log
from toolhub import invisible
from toolhub.access import bearer
from toolhub.access.models import ServingProcess
from toolhub.pages.staff import page, staff_page
from toolhub.server import clients, presence
from toolhub.server.presence import Bound, Holder

MAX_LISTED_ROWS = 100
WAIT_SECONDS = 0.1
"""Seconds that the first request waits for reports of the processes; later requests show reports that came since."""
DISCONNECT_PERMISSION = "access.disconnect_client"
REVOKE_PERMISSION = "access.change_accesstoken"
KIND_LABELS = {
    clients.SESSION: gettext_lazy("HTTP session"),
    clients.STREAM: gettext_lazy("listen stream"),
    clients.WEBSOCKET: gettext_lazy("WebSocket"),
    clients.STDIO: gettext_lazy("stdio"),
    clients.STATELESS: gettext_lazy("HTTP, stateless"),
}
MAX_LISTED_HOLDERS = 20
BOUNDS = {
    "silent": (gettext_lazy("A new connection sent nothing"), "TOOLHUB_HEADER_SECONDS"),
    "headers": (gettext_lazy("Headers of a request arrived too late"), "TOOLHUB_HEADER_SECONDS"),
    "websocket_headers": (
        gettext_lazy("The handshake of a WebSocket arrived too late"),
        "TOOLHUB_WEBSOCKET_HEADER_SECONDS",
    ),
    "slow_body": (gettext_lazy("A request arrived too slowly"), "TOOLHUB_MIN_BYTES_PER_SECOND"),
    "slow_reader": (gettext_lazy("An answer was read too slowly"), "TOOLHUB_MIN_BYTES_PER_SECOND"),
    "unread": (gettext_lazy("Unread answers took too much memory"), "TOOLHUB_MAX_UNREAD_MB"),
    "queue": (gettext_lazy("Too much waited for the reader of a stream"), "TOOLHUB_MAX_QUEUED_KB"),
    "large": (gettext_lazy("A request was too large"), "TOOLHUB_MAX_BODY_BYTES"),
    "chunks": (gettext_lazy("A request came in too many small chunks"), ""),
    "uploads": (gettext_lazy("Too many large requests arrived at once"), "TOOLHUB_MAX_UPLOADS_MB"),
    "evicted": (
        gettext_lazy("An idle connection was closed to make room for a new one"),
        "TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS, TOOLHUB_MAX_CONNECTIONS",
    ),
    "evicted_busy": (
        gettext_lazy("A request that was still arriving was cut to make room for a new connection"),
        "TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS, TOOLHUB_MAX_CONNECTIONS",
    ),
    "per_address": (gettext_lazy("Too many connections from one address"), "TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS"),
    "arrivals": (
        gettext_lazy("New connections of one address came too fast and had to wait"),
        "TOOLHUB_CONNECTIONS_RATE",
    ),
    "total": (gettext_lazy("Too many connections to one process"), "TOOLHUB_MAX_CONNECTIONS"),
    "streams": (gettext_lazy("Too many open streams and WebSockets of one user"), "TOOLHUB_MAX_STREAMS_PER_USER"),
    "all_streams": (gettext_lazy("Too many open streams and WebSockets in one process"), ""),
    "requests": (gettext_lazy("Requests of one user came too fast"), "TOOLHUB_REQUESTS_RATE"),
    "calls": (gettext_lazy("Too many calls of one user were running"), "TOOLHUB_MAX_CALLS_PER_USER"),
    "in_progress": (gettext_lazy("Too many requests of one session at once"), "TOOLHUB_MAX_REQUESTS_PER_SESSION"),
    "frames": (gettext_lazy("WebSocket frames came too fast and had to wait"), "TOOLHUB_WEBSOCKET_FRAMES_RATE"),
    "frames_cut": (
        gettext_lazy("WebSocket frames kept coming too fast, and the connection was closed"),
        "TOOLHUB_WEBSOCKET_FRAMES_RATE",
    ),
    "pings": (gettext_lazy("WebSocket pings came too fast"), "TOOLHUB_WEBSOCKET_PINGS_RATE"),
    "messages": (gettext_lazy("A WebSocket had too many messages in progress"), ""),
    "invalid_tokens": (gettext_lazy("Too many invalid tokens from one address"), "TOOLHUB_BAD_TOKENS_RATE"),
    "lookups": (gettext_lazy("Too many tokens waited for the database"), ""),
    "pages": (
        gettext_lazy("Requests of pages had to wait"),
        "TOOLHUB_MAX_PAGES_PER_ADDRESS, TOOLHUB_MAX_PAGES",
    ),
    "log_queue": (gettext_lazy("Too many calls waited for the audit log"), ""),
}
"""By name in `toolhub.refusals`: what happened, and the setting of the limit; "" for a fixed one."""


@staff_page("access.view_connections")
@require_safe
def sessions(request: HttpRequest) -> HttpResponse:
    presence.request_reports()
    if not request.GET.get("again"):
        time.sleep(WAIT_SECONDS)
    processes = presence.processes()
    rows, total = _filter_rows(presence.connected(processes), request)
    names = {process.pk: _name(process) for process in processes}
    kind = request.GET.get("kind", "")
    reports = presence.edge_reports(processes)
    holders = presence.holders(reports)
    return page(
        request,
        "admin/pages/sessions.html",
        _("Sessions"),
        rows=[_present_row(row, names) for row in rows],
        total=total,
        left_out=sum(process.left_out for process in processes),
        processes=[(_name(process), process.host, _to_datetime(process.started.timestamp())) for process in processes],
        kinds=[(key, words, key == kind) for key, words in KIND_LABELS.items()],
        q=request.GET.get("q", "")[:100],
        filtered=bool(kind or request.GET.get("q")),
        idle_minutes=int(clients.STATELESS_SECONDS // 60),
        holders=_present_holders(holders[:MAX_LISTED_HOLDERS]),
        more_holders=max(0, len(holders) - MAX_LISTED_HOLDERS)
        + sum(report["left_out"] for _process, report in reports),
        edges=[(names[process.pk], report["connections"], f"{report['most']:,}") for process, report in reports],
        most_per_address=max((report["most_per_address"] for _process, report in reports), default=0),
        bounds=[_present_bound(bound) for bound in presence.bounds(reports)],
        can_disconnect=request.user.has_perm(DISCONNECT_PERMISSION),
        can_revoke=request.user.has_perm(REVOKE_PERMISSION),
    )


@staff_page("access.view_connections", DISCONNECT_PERMISSION)
@require_POST
def disconnect(request: HttpRequest) -> HttpResponse:
    """Disconnect the client whose key is in the body; report one that is gone already as gone."""
    row = _find_row(request)
    if row is None or row["kind"] == clients.STATELESS:
        messages.warning(request, _("This connection has already ended."))
        return _back(request)
    with transaction.atomic():
        log.record("disconnected", "connection", f"{row['user']}: {_client(row)}", _facts(row), None)
        presence.disconnect(row)
    messages.success(
        request, _("%(client)s of %(user)s was disconnected.") % {"client": _client(row), "user": row["user"]}
    )
    return _back(request)


@staff_page("access.view_connections", REVOKE_PERMISSION)
@require_POST
def revoke(request: HttpRequest) -> HttpResponse:
    """Revoke the token or the connected app of the connection in the body.

    Every connection with it is closed, and every request rejected.
    """
    row = _find_row(request)
    token = bearer.find_now(row["credential"]) if row is not None else None
    if token is None:
        messages.warning(request, _("This connection has already ended."))
    elif token.revoke():
        messages.success(request, _("“%(name)s” was revoked. Its clients are now rejected.") % {"name": token})
    else:
        messages.info(request, _("“%(name)s” was already revoked.") % {"name": token})
    return _back(request)


@staff_page("access.view_connections", DISCONNECT_PERMISSION)
@require_POST
def close(request: HttpRequest) -> HttpResponse:
    """Close the connections of the person and address whose key is in the body; report those that have ended."""
    key = request.POST.get("key", "")
    holders = presence.holders(presence.edge_reports(presence.processes()))
    row = next((row for row in holders if row["key"] == key), None)
    if row is None:
        messages.warning(request, _("These connections have already ended."))
        return _back(request)
    user = _find_names([row]).get(row["user_id"])
    facts = {"user": user, "address": row["address"], "connections": row["connections"]}
    with transaction.atomic():
        log.record("disconnected", "connection", f"{user or NOBODY}: {row['address']}", facts, None)
        presence.cut(row)
    messages.success(request, _("The connections from %(address)s are being closed.") % {"address": row["address"]})
    return _back(request)


NOBODY = "-"


def _filter_rows(rows: list[clients.Row], request: HttpRequest) -> tuple[list[clients.Row], int]:
    """Return the rows that the address filters for, at most `MAX_LISTED_ROWS`, and their total."""
    kind, wanted = request.GET.get("kind", ""), request.GET.get("q", "").casefold().strip()[:100]
    good = bearer.filter_valid_now({row["credential"] for row in rows})
    found = [
        row
        for row in rows
        if row["credential"] in good
        and (not kind or row["kind"] == kind)
        and (not wanted or any(wanted in str(row[name]).casefold() for name in _SEARCHED_FIELDS))
    ]
    return found[:MAX_LISTED_ROWS], len(found)


_SEARCHED_FIELDS = ("user", "client", "version", "revision", "address", "token")


def _find_row(request: HttpRequest) -> clients.Row | None:
    key = request.POST.get("key", "")
    return next((row for row in presence.connected(presence.processes()) if row["key"] == key), None)


def _present_row(row: clients.Row, names: dict[str, str]) -> dict[str, Any]:
    return {
        "key": row["key"],
        "user": invisible.show(row["user"]),
        "user_link": reverse("admin:auth_user_change", args=(row["user_id"],)),
        "calls_link": f"{reverse('admin:audit_call_changelist')}?credential={row['credential']}",
        "client": invisible.show(row["client"][:80]) or _("unnamed client"),
        "version": invisible.show(row["version"][:40]),
        "token": invisible.show(row["token"]),
        "is_revocable": not row["credential"].startswith("admin:"),
        "kind": KIND_LABELS.get(row["kind"], row["kind"]),
        "open": row["kind"] in {clients.STREAM, clients.WEBSOCKET, clients.STDIO} or bool(row["streams"]),
        "stateless": row["kind"] == clients.STATELESS,
        "revision": row["revision"],
        "address": row["address"],
        "workers": ", ".join(names.get(worker, worker) for worker in row["workers"]),
        "since": _to_datetime(row["since"]),
        "seen": _time_ago(row["seen"]),
        "called": _time_ago(row["called"]),
    }


def _find_names(rows: list[Holder]) -> dict[int, str]:
    ids = {row["user_id"] for row in rows} - {None}
    users = get_user_model()
    return dict(users.objects.filter(pk__in=ids).values_list("pk", users.USERNAME_FIELD))


def _present_holders(rows: list[Holder]) -> list[dict[str, Any]]:
    names = _find_names(rows)
    return [
        {
            **row,
            "user": invisible.show(names.get(row["user_id"], "")),
            "user_link": reverse("admin:auth_user_change", args=(row["user_id"],)) if row["user_id"] in names else "",
            "since": _to_datetime(row["since"]),
        }
        for row in rows
    ]


def _present_bound(bound: Bound) -> dict[str, Any]:
    words, setting = BOUNDS.get(bound.name, (bound.name, ""))
    return {"words": words, "setting": setting, "count": f"{bound.count:,}", "last": _time_ago(bound.last)}


def _name(process: ServingProcess) -> str:
    return _("process %(pid)s") % {"pid": process.pid}


def _to_datetime(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _time_ago(seconds: float) -> tuple[datetime, str] | None:
    """Return the time and the elapsed time as text; None for never."""
    at = _to_datetime(seconds)
    if at is None:
        return None
    elapsed = max(0, int(time.time() - seconds))
    if elapsed < 60:
        return at, _("%(n)s s ago") % {"n": elapsed}
    if elapsed < 3600:
        return at, _("%(n)s min ago") % {"n": elapsed // 60}
    return at, _("%(n)s h ago") % {"n": elapsed // 3600}


def _client(row: clients.Row) -> str:
    return invisible.show(f"{row['client']} {row['version']}".strip() or row["kind"])


def _facts(row: clients.Row) -> dict[str, Any]:
    names = ("user", "credential", "token", "client", "version", "kind", "revision", "address")
    return {name: row[name] for name in names}


def _back(request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect(reverse("pages:sessions"))
