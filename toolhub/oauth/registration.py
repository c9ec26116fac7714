"""Dynamic client registration (RFC 7591) that is safe to offer to everybody.

A registration gives nobody access: a person still has to sign in and allow the client. What it could do is fill the
database or send codes to strange addresses. So each address has a rate, a client that nobody connects disappears after
a day, and redirect addresses are the person's own computer, https, or an application that the operator listed.
django-oauth-toolkit's own view has none of these bounds.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone

from toolhub import client_address, contact
from toolhub.access import throttle
from toolhub.access.models import digest_of
from toolhub.oauth import client_documents, progress, redirects, scopes, tokens
from toolhub.oauth.endpoints import error, json_endpoint
from toolhub.oauth.models import Client, ConnectedApp
from toolhub.oauth.validator import DEVICE_CODE

MAX_BODY_BYTES = 65_536
MAX_UNUSED_CLIENTS = 10_000
"""Maximum number of registered clients that nobody has connected; the oldest make room."""
UNUSED_HOURS = 24
SAFE_MINUTES = 10
"""Minutes for which a new client makes no room: its person is signing in."""
FULL_SECONDS = 60
EVICTED = 100
"""So many make room at once: finding them takes a look at all."""
SUBSCRIBER_FACTOR = 10
"""A subscriber with many IPv6 networks has this many times the rate of one."""
AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post")
GRANT_TYPES = ("authorization_code", "refresh_token", DEVICE_CODE)


class InvalidMetadata(Exception):
    """A registration that is refused, with a code of RFC 7591, section 3.2.2, and a sentence for the developer."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code, self.description = code, description


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client asks to be registered as."""

    name: str
    redirect_uris: tuple[str, ...]
    auth_method: str
    application_type: str
    grant_types: tuple[str, ...] = ("authorization_code", "refresh_token")


@json_endpoint("POST")
def register(request: HttpRequest) -> HttpResponse:
    """Register a client; the answer is the only one with its secret."""
    if not client_documents.may_register_at_all():
        return error("access_denied", f"Clients cannot register at this server. Ask {contact.english()}.", 403)
    address = client_address.counted(str(request.META.get("REMOTE_ADDR", "")))
    if seconds := wait_seconds("client-registration", address):
        text = f"Too many clients were registered from your address. Try again in {seconds} s."
        return error("temporarily_unavailable", text, 429, {"Retry-After": str(seconds)})
    try:
        wanted = read(request)
    except InvalidMetadata as refused:
        return error(refused.code, refused.description)
    # Where only listed clients register, one without any address is none of them.
    if not client_documents.may_register(redirects.hosts_of(wanted.redirect_uris)):
        text = f"Only listed clients can register at this server. Ask {contact.english()}."
        return error("access_denied", text, 403)
    if not make_room():
        text = f"Too many clients have registered. Try again in {FULL_SECONDS} s."
        return error("temporarily_unavailable", text, 429, {"Retry-After": str(FULL_SECONDS)})
    client, secret = save(wanted, address)
    progress.report_to_address("registered", request, str(client))
    return JsonResponse(describe(client, wanted, secret), status=201)


def read(request: HttpRequest) -> Wanted:
    """Return what the body asks for. Raises InvalidMetadata."""
    if request.content_type != "application/json":
        raise InvalidMetadata("invalid_client_metadata", "The body must be application/json.")
    if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BODY_BYTES or len(request.body) > MAX_BODY_BYTES:
        raise InvalidMetadata("invalid_client_metadata", f"The body is larger than {MAX_BODY_BYTES:,} bytes.")
    try:
        given = json.loads(request.body)
    except (ValueError, RecursionError):
        raise InvalidMetadata("invalid_client_metadata", "The body is not valid JSON.") from None
    if not isinstance(given, dict):
        raise InvalidMetadata("invalid_client_metadata", "The body must be a JSON object.")
    grants = _read_grants(given)
    has_redirects = "authorization_code" in grants or given.get("redirect_uris")
    return Wanted(
        name=_read_name(given.get("client_name")),
        redirect_uris=_read_redirects(given.get("redirect_uris")) if has_redirects else (),
        auth_method=_read_auth_method(given),
        grant_types=grants,
        application_type="web" if given.get("application_type") == "web" else "native",
    )


def _read_name(name: object) -> str:
    if name is None:
        return ""
    if not isinstance(name, str):
        raise InvalidMetadata("invalid_client_metadata", "client_name must be a string.")
    return client_documents.clean_name(name)


def _read_redirects(addresses: object) -> tuple[str, ...]:
    if not isinstance(addresses, list) or not 0 < len(addresses) <= redirects.MAX_ADDRESSES:
        raise InvalidMetadata(
            "invalid_redirect_uri", f"redirect_uris must list 1 to {redirects.MAX_ADDRESSES} addresses."
        )
    for address in addresses:
        if problem := redirects.find_problem(address):
            raise InvalidMetadata("invalid_redirect_uri", f"redirect_uris: {problem}.")
    return tuple(dict.fromkeys(addresses))


def _read_grants(given: dict[str, Any]) -> tuple[str, ...]:
    """Return the grants that are offered here. Raises InvalidMetadata when the client could use none of them."""
    grants, responses = given.get("grant_types", ["authorization_code"]), given.get("response_types", ["code"])
    if not isinstance(grants, list) or not {"authorization_code", DEVICE_CODE} & set(map(str, grants)):
        raise InvalidMetadata(
            "invalid_client_metadata", f"grant_types must contain authorization_code or {DEVICE_CODE}."
        )
    if "authorization_code" in grants and (not isinstance(responses, list) or "code" not in responses):
        raise InvalidMetadata("invalid_client_metadata", "response_types must contain code.")
    return tuple(grant for grant in GRANT_TYPES if grant in grants or grant == "refresh_token")


def _read_auth_method(given: dict[str, Any]) -> str:
    method = given.get("token_endpoint_auth_method", "client_secret_basic")
    if method not in AUTH_METHODS:
        raise InvalidMetadata(
            "invalid_client_metadata", f"token_endpoint_auth_method must be one of {', '.join(AUTH_METHODS)}."
        )
    return str(method)


def save(wanted: Wanted, address: str) -> tuple[Client, str]:
    """Store a new client and return it with its secret, "" for a public one."""
    secret = "" if wanted.auth_method == "none" else tokens.new_client_secret()
    client = Client.objects.create(
        client_id=secrets.token_urlsafe(24),
        client_type=Client.CLIENT_CONFIDENTIAL if secret else Client.CLIENT_PUBLIC,
        authorization_grant_type=(
            Client.GRANT_AUTHORIZATION_CODE if "authorization_code" in wanted.grant_types else Client.GRANT_DEVICE_CODE
        ),
        for_devices=DEVICE_CODE in wanted.grant_types,
        client_secret=digest_of(secret) if secret else "",
        hash_client_secret=False,
        name=wanted.name,
        redirect_uris=" ".join(wanted.redirect_uris),
        registration_source=Client.RegistrationSource.DCR,
        auth_method=wanted.auth_method,
        registered_from=address,
    )
    return client, secret


def describe(client: Client, wanted: Wanted, secret: str) -> dict[str, Any]:
    """Return the answer of RFC 7591, section 3.2.1: everything as it was registered."""
    found: dict[str, Any] = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created.timestamp()),
        "client_name": client.name,
        "redirect_uris": list(wanted.redirect_uris),
        "grant_types": list(wanted.grant_types),
        "response_types": ["code"] if "authorization_code" in wanted.grant_types else [],
        "token_endpoint_auth_method": wanted.auth_method,
        "application_type": wanted.application_type,
        "scope": scopes.MCP,
    }
    if secret:
        found |= {"client_secret": secret, "client_secret_expires_at": 0}
    return found


def _unused() -> Any:
    registered = (Client.RegistrationSource.DCR, Client.RegistrationSource.CIMD)
    used = ConnectedApp.objects.values("client")
    return Client.objects.filter(registration_source__in=registered, trusted=False, blocked=False).exclude(pk__in=used)


def make_room() -> bool:
    """Delete an unused client when there are too many; return whether there is room for one more.

    The oldest of the address with the most of them goes: an address that fills the table pushes out its own.
    """
    unused = _unused()
    if unused.count() < MAX_UNUSED_CLIENTS:
        return True
    old = unused.filter(created__lt=timezone.now() - timedelta(minutes=SAFE_MINUTES))
    sources = old.order_by().values("registered_from").annotate(number=Count("pk")).order_by("-number")
    source = sources.first()
    if source is None:
        return False
    oldest = list(
        old.filter(registered_from=source["registered_from"]).order_by("pk").values_list("pk", flat=True)[:EVICTED]
    )
    Client.objects.filter(pk__in=oldest).delete()
    return True


def wait_seconds(group: str, address: str) -> int:
    """Count one registration, or the like, of this counted address; return the seconds to wait if that is too many."""
    counters = [throttle.Counter(group, address, settings.REGISTRATIONS_RATE)]
    if network := client_address.subscriber_network(address):
        number, _slash, period = settings.REGISTRATIONS_RATE.partition("/")
        counters.append(throttle.Counter(group, network, f"{int(number) * SUBSCRIBER_FACTOR}/{period}"))
    return throttle.reserve(counters).seconds


def remove_unused() -> None:
    """Delete clients that nobody has connected for a day: a background job."""
    _unused().filter(created__lt=timezone.now() - timedelta(hours=UNUSED_HOURS)).delete()
