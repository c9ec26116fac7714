"""The authorization endpoint: a person sees which client asks, and decides.

The parameters are checked before anybody signs in, as far as no document has to be fetched for it. An error of the
client goes back to it; when the client or its redirect address is not known, it is shown here and nothing is redirected
(RFC 6749, section 4.1.2.1). The decision is a form of this site: CSRF-safe, never framed, never skipped, and good for
the request that was shown, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods
from oauth2_provider.cimd import is_cimd_client_id
from oauth2_provider.oauth2_backends import get_oauthlib_core
from oauthlib.oauth2.rfc6749 import errors

from toolhub.access import throttle
from toolhub.access.middleware import PAGES_POLICY
from toolhub.oauth import client_documents, questions, redirects, resources
from toolhub.oauth.consent import ConsentForm, build_context, has_too_many_apps, read_form
from toolhub.oauth.models import Client
from toolhub.oauth.validator import find_client

PARAMETERS = (
    "client_id",
    "redirect_uri",
    "response_type",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
)
"""The parameters that are read. `prompt` and the like cannot skip the question to the person."""
MAX_QUERY_CHARACTERS = 7_000
"""Twice encoded, as the address after the sign-in, it has to fit into a header."""
DOCUMENTS_RATE = "30/10m"
"""Rate of client documents that are fetched for one person."""


@dataclass(frozen=True, slots=True)
class Request:
    """A valid authorization request."""

    query: str
    """Its parameters, as this server reads them."""
    scope: str
    client: Client
    redirect_uri: str
    credentials: dict[str, Any]


class Unknown(Exception):
    """A request that cannot be answered to the client: `code` says why, for the page."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Invalid(Exception):
    """A request of a known client that is invalid: `address` has the error for it."""

    def __init__(self, address: str, client: Client | None) -> None:
        super().__init__(address)
        self.address, self.client = address, client


@csrf_protect
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables()
def authorize(request: HttpRequest) -> HttpResponse:
    """Ask the person in front of the browser, and send the answer to the client."""
    response = _authorize(request)
    # A client that runs in a web page waits in the window that opened this one for the answer.
    response.headers["Cross-Origin-Opener-Policy"] = "unsafe-none"
    add_never_cache_headers(response)
    return response


def _authorize(request: HttpRequest) -> HttpResponse:
    try:
        query = read_query(request)
        if not request.user.is_authenticated:
            _check_before_sign_in(request, query)
            return redirect_to_login(f"{request.path}?{query}")
        found = check(query, request.user)
    except Unknown as problem:
        return _show_problem(request, problem.code)
    except Invalid as invalid:
        return _answer_error(request, invalid)
    if request.method != "POST":
        return _ask(request, found)
    return _decide(request, found)


def read_query(request: HttpRequest) -> str:
    """Return the parameters that count. Raises Unknown when one is too long for any honest client."""
    pairs = [(name, value) for name in PARAMETERS for value in request.GET.getlist(name)]
    query = urlencode(pairs, quote_via=quote)
    if len(query) > MAX_QUERY_CHARACTERS or len(pairs) > 2 * len(PARAMETERS):
        raise Unknown("invalid")
    return query


def _check_before_sign_in(request: HttpRequest, query: str) -> None:
    client_id = request.GET.get("client_id", "")
    if find_client(client_id) is None and is_cimd_client_id(client_id) and client_documents.are_read():
        return
    check(query, None)


def check(query: str, user: Any) -> Request:
    """Return the request when it is valid; for a person, the document of its client may be fetched.

    Raises Unknown and Invalid.
    """
    core = get_oauthlib_core()
    headers = {}
    client_id = _find_client_id(query)
    if user is not None and is_cimd_client_id(client_id) and _needs_document(client_id):
        guess = throttle.reserve([throttle.Counter("client-document", f"{user.pk}", DOCUMENTS_RATE)])
        if guess.seconds:
            raise Unknown("too_many")
        headers[client_documents.MAY_FETCH] = "1"
    try:
        wanted, credentials = core.server.validate_authorization_request(
            f"{reverse('oauth:authorize')}?{query}", http_method="GET", headers=headers
        )
    except errors.FatalClientError as error:
        raise Unknown(_find_code(error, client_id)) from None
    except errors.OAuth2Error as error:
        address = redirects.add_issuer(error.in_uri(error.redirect_uri))
        raise Invalid(address, find_client(client_id)) from None
    oauth_request = credentials.pop("request")
    found = Request(query, " ".join(wanted), oauth_request.client, credentials["redirect_uri"], credentials)
    try:
        resources.check(_find_all(query, "resource"), state=credentials["state"])
    except errors.OAuth2Error as error:
        raise Invalid(redirects.add_issuer(error.in_uri(found.redirect_uri)), found.client) from None
    credentials["resource"] = [resources.RESOURCE]
    return found


def _find_all(query: str, name: str) -> list[str]:
    return [value for key, value in parse_qsl(query, keep_blank_values=True) if key == name]


def _find_client_id(query: str) -> str:
    return next(iter(_find_all(query, "client_id")), "")


def _needs_document(client_id: str) -> bool:
    known = find_client(client_id)
    return known is None or known.cimd_expires_at is None or known.cimd_expires_at <= timezone.now()


def _find_code(error: errors.FatalClientError, client_id: str) -> str:
    if isinstance(error, errors.InvalidClientIdError):
        if Client.objects.filter(client_id=client_id.replace("\x00", ""), blocked=True).exists():
            return "blocked"
        return "document" if is_cimd_client_id(client_id) else "client"
    if isinstance(error, errors.InvalidRedirectURIError | errors.MismatchingRedirectURIError):
        return "redirect"
    return "invalid"


# --- the question ----------------------------------------------------------------------------------------------------


def _ask(request: HttpRequest, found: Request, form: ConsentForm | None = None, note: str = "") -> HttpResponse:
    context = build_context(request, found.client, found.scope, form)
    context |= {
        "note": note,
        "nonce": questions.remember(request, found.query),
        "action": f"{request.path}?{found.query}",
        "destination": redirects.describe(found.redirect_uri),
    }
    status = 400 if context["form"].errors else 200
    response = render(request, "oauth/authorize.html", context, status=status)
    source = redirects.policy_source(found.redirect_uri)
    response.headers["Content-Security-Policy"] = PAGES_POLICY.replace(
        "form-action 'self'", f"form-action 'self' {source}"
    )
    return response


def _decide(request: HttpRequest, found: Request) -> HttpResponse:
    if not questions.is_answered(request, found.query):
        return _ask(request, found, note="expired")
    if request.POST.get("decision") != "allow":
        denied = errors.AccessDeniedError(state=found.credentials["state"])
        return _send(request, found, redirects.add_issuer(denied.in_uri(found.redirect_uri)))
    form = read_form(request)
    if not form.is_valid():
        return _ask(request, found, form)
    if has_too_many_apps(request):
        return _ask(request, found, form, note="full")
    decision = form.decide(found.scope, redirects.describe(found.redirect_uri).name)
    core = get_oauthlib_core()
    try:
        headers, _body, _status = core.server.create_authorization_response(
            f"{request.path}?{found.query}",
            http_method="GET",
            scopes=found.scope.split(),
            credentials={**found.credentials, "user": request.user, "decision": decision},
        )
    except IntegrityError:  # the form was sent twice at the same time, or the client has just been removed
        return _ask(request, found, note="expired")
    return _send(request, found, redirects.add_issuer(headers["Location"]))


def _send(request: HttpRequest, found: Request, address: str) -> HttpResponse:
    destination = redirects.describe(found.redirect_uri)
    if destination.kind == "app":
        # The browser hands this address to an application and stays on the page.
        return render(request, "oauth/handed_over.html", {"address": address, "client": found.client})
    return _redirect(address)


def _answer_error(request: HttpRequest, invalid: Invalid) -> HttpResponse:
    """Send an error back to the client.

    Anybody can register any address, so a link of this server could lead anywhere: a person is sent to another site by
    their own click, unless the client is known for more than its own word (OAuth 2.1, section 7.12). The same after the
    sign-in: a browser follows no redirect of its form to another place.
    """
    client, destination = invalid.client, redirects.describe(invalid.address)
    is_known = client is not None and (client.trusted or client.registration_source == Client.RegistrationSource.MANUAL)
    came_from_sign_in = urlsplit(request.headers.get("Referer", "")).path == reverse("access:login")
    if (destination.kind == "computer" or is_known) and not came_from_sign_in:
        return _redirect(invalid.address)
    context = {"problem": "invalid", "address": invalid.address, "client": client, "destination": destination}
    return render(request, "oauth/problem.html", context, status=400)


def _redirect(address: str) -> HttpResponse:
    response = HttpResponse(status=302)
    # Not HttpResponseRedirect, which knows no schemes of applications; the address was checked against the client's.
    response.headers["Location"] = address
    return response


def _show_problem(request: HttpRequest, code: str) -> HttpResponse:
    status = 429 if code == "too_many" else 400
    documents, listed = client_documents.are_read(), settings.CLIENT_REGISTRATION == "listed"
    context = {"problem": code, "documents": documents, "listed": listed}
    return render(request, "oauth/problem.html", context, status=status)
