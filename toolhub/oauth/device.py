"""Connecting a program that has no browser: it shows a code, and a person enters that elsewhere (RFC 8628).

Somebody else may have started the program and sent the link to this person. So the page names the address that the
program asks from, says so when it is in another network, and the person has to compare the code.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db import IntegrityError, OperationalError, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods
from oauth2_provider.oauth2_backends import get_oauthlib_core
from oauthlib.common import Request
from oauthlib.oauth2.rfc6749 import errors

from toolhub import client_address
from toolhub.access import throttle
from toolhub.access.models import digest_of
from toolhub.oauth import questions, registration, resources, scopes, tokens
from toolhub.oauth.consent import ConsentForm, build_context, has_too_many_apps, read_form
from toolhub.oauth.endpoints import error, json_endpoint
from toolhub.oauth.models import Client, DeviceRequest
from toolhub.oauth.resources import ISSUER
from toolhub.oauth.token_endpoint import FORM

SECONDS = 600
INTERVAL_SECONDS = 5
ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels, so no words, and nothing that looks like a digit (RFC 8628, section 6.1)."""
CODE_CHARACTERS = 8
MAX_DRAWS = 5
MAX_REQUESTS = 10_000
"""Maximum number of requests that wait for a person."""
WRONG_CODES_RATE = "10/10m"
"""Rate of codes that one person enters and that nobody shows: 20^8 are possible, and few are valid at one time."""


@json_endpoint("POST")
@sensitive_post_parameters()
@sensitive_variables()
def authorize(request: HttpRequest) -> HttpResponse:
    """Give a program a code to show, and one to ask with."""
    if request.content_type != FORM:
        return error("invalid_request", f"The body must be {FORM}.")
    seconds = registration.wait_seconds("device-request", _find_address(request))
    DeviceRequest.objects.filter(expires__lt=timezone.now()).delete()
    if not seconds and DeviceRequest.objects.count() >= MAX_REQUESTS:
        seconds = INTERVAL_SECONDS
    if seconds:
        text = f"Too many codes were requested. Try again in {seconds} s."
        return error("temporarily_unavailable", text, 429, {"Retry-After": str(seconds)})
    try:
        client, scope = _identify(request)
    except errors.OAuth2Error as refused:
        return error(refused.error, refused.description or "", refused.status_code)
    device_code = tokens.new_device_code()
    user_code = _store(client, scope, device_code, str(request.META.get("REMOTE_ADDR", "")))
    page = f"{ISSUER}{reverse('oauth:device')}"
    return JsonResponse(
        {
            "device_code": device_code,
            "user_code": show(user_code),
            "verification_uri": page,
            "verification_uri_complete": f"{page}?code={show(user_code)}",
            "expires_in": SECONDS,
            "interval": INTERVAL_SECONDS,
        }
    )


def _store(client: Client, scope: str, device_code: str, address: str) -> str:
    """Store the request and return its user code, one that no other request has."""
    for _attempt in range(MAX_DRAWS):
        user_code = draw_code()
        with suppress(IntegrityError), transaction.atomic():
            DeviceRequest.objects.create(
                client=client,
                device_digest=digest_of(device_code),
                user_code=user_code,
                scope=scope,
                address=address[:64],
                expires=timezone.now() + timedelta(seconds=SECONDS),
                interval=INTERVAL_SECONDS,
            )
            return user_code
    raise OperationalError("no free user code was drawn")


def draw_code() -> str:
    return "".join(secrets.choice(ALPHABET) for _number in range(CODE_CHARACTERS))


def _identify(request: HttpRequest) -> tuple[Client, str]:
    """Return the client and the scope that it asks for. Raises OAuth2Error."""
    core = get_oauthlib_core()
    uri, method, body, headers = core._extract_params(request)
    asked = Request(uri, method, body, headers)
    validator = core.server.request_validator
    if validator.client_authentication_required(asked):
        known = validator.authenticate_client(asked)
    else:
        known = validator.authenticate_client_id(asked.client_id, asked)
    if not known:
        raise errors.InvalidClientError(request=asked)
    if not asked.client.allows_grant_type(Client.GRANT_DEVICE_CODE):
        raise errors.UnauthorizedClientError(request=asked)
    resources.check(request.POST.getlist("resource"))
    return asked.client, " ".join(scopes.select_known((asked.scope or "").split()))


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def device(request: HttpRequest) -> HttpResponse:
    """Ask a person for the code that a program shows, and then about the program."""
    user = cast(User, request.user)
    code = request.GET.get("code", "")
    if not code:
        return render(request, "oauth/device.html", {})
    key = f"{user.pk}"
    seconds = throttle.wait_seconds("device-code", key, WRONG_CODES_RATE, count=False)
    if seconds:
        return _enter_again(request, _("Too many wrong codes. Try again in %d s.") % seconds, 429)
    found = find(code)
    if found is None:
        throttle.wait_seconds("device-code", key, WRONG_CODES_RATE, count=True)
        return _enter_again(request, _("This code is unknown or has expired. Start again in the program."), 400)
    return _decide(request, found) if request.method == "POST" else _ask(request, found)


def find(code: str) -> DeviceRequest | None:
    """Return the request that shows this code and has not been decided about."""
    letters = "".join(character for character in code.upper() if character in ALPHABET)
    if len(letters) != CODE_CHARACTERS or len(code) > 2 * CODE_CHARACTERS:
        return None
    waiting = DeviceRequest.objects.select_related("client").filter(connection=None, denied=False)
    found: DeviceRequest | None = waiting.filter(
        user_code=letters, expires__gt=timezone.now(), client__blocked=False
    ).first()
    return found


def show(user_code: str) -> str:
    return f"{user_code[:4]}-{user_code[4:]}"


def _find_address(request: HttpRequest) -> str:
    return client_address.counted(str(request.META.get("REMOTE_ADDR", "")))


def _enter_again(request: HttpRequest, problem: str, status: int) -> HttpResponse:
    return render(request, "oauth/device.html", {"problem": problem}, status=status)


def _ask(request: HttpRequest, found: DeviceRequest, form: ConsentForm | None = None, note: str = "") -> HttpResponse:
    context: dict[str, Any] = build_context(request, found.client, found.scope, form, by_device=True)
    context |= {
        "note": note,
        "nonce": questions.remember(request, _subject(found)),
        "action": f"{request.path}?code={show(found.user_code)}",
        "device": found,
        "device_code": show(found.user_code),
        "is_elsewhere": client_address.counted(found.address) != _find_address(request),
    }
    return render(request, "oauth/authorize.html", context, status=400 if context["form"].errors else 200)


def _decide(request: HttpRequest, found: DeviceRequest) -> HttpResponse:
    if not questions.is_answered(request, _subject(found)):
        return _ask(request, found, note="expired")
    if request.POST.get("decision") != "allow":
        DeviceRequest.objects.filter(pk=found.pk, connection=None).update(denied=True)
        return render(request, "oauth/device_done.html", {"client": found.client, "allowed": False})
    form = read_form(request)
    if not form.is_valid():
        return _ask(request, found, form)
    if has_too_many_apps(request):
        return _ask(request, found, form, note="full")
    with transaction.atomic():
        waiting = DeviceRequest.objects.select_for_update().filter(pk=found.pk, connection=None, denied=False).first()
        if waiting is None:
            return _enter_again(request, _("This code is unknown or has expired. Start again in the program."), 400)
        decision = form.decide(found.scope, found.address, by_device=True)
        waiting.connection = decision.create_connection(request.user, found.client, found.device_digest)
        waiting.save(update_fields=["connection"])
    return render(request, "oauth/device_done.html", {"client": found.client, "allowed": True})


def _subject(found: DeviceRequest) -> str:
    return f"device:{found.pk}"
