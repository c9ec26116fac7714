"""`/accounts/`: connecting one's own account at a service, from the page of secrets or from a link of a client.

A link is a page with a button: nothing happens when a program opens it. It works only for the person it was made for.
"""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import require_GET, require_POST, require_safe
from django_ratelimit.core import is_ratelimited

from catalog.accounts import clients, flow, links, problems
from catalog.accounts.problems import AccountProblem
from catalog.models import Secret
from catalog.views.secrets import Card, find_cards

RATE = "20/10m"
"""Rate of sign-ins that one person begins: each sends requests to the service."""


def _find(user: User, name: str) -> Card | None:
    """Return the account that this user's tools need; None for none, or for a secret of another kind."""
    card = find_cards(user).get(name)
    return card if card is not None and card.is_used and card.secret.kind == Secret.Kind.ACCOUNT else None


@login_required
@never_cache
@require_safe
def link(request: HttpRequest, name: str, mark: str) -> HttpResponse:
    """Show what is connected, and where it will be used, with a button; only to the person the link was made for."""
    user = cast(User, request.user)
    card = _find(user, name) if links.is_for(user.pk, name, mark) else None
    if card is None:
        return render(request, "catalog/account_refused.html", {"section": "secrets"}, status=403)
    return render(request, "catalog/account.html", {"section": "secrets", "card": card})


@login_required
@never_cache
@require_POST
def connect(request: HttpRequest, name: str) -> HttpResponse:
    """Lead the person to the authorization server of an account."""
    user = cast(User, request.user)
    card = _find(user, name)
    if card is None:
        raise Http404
    try:
        if is_ratelimited(request, group="catalog:connect", key="user", rate=RATE, increment=True):
            raise AccountProblem("too_many")
        allowed = tuple(request.POST.getlist("destination"))
        address = flow.begin(request.session, user, card.secret, allowed)
    except AccountProblem as problem:
        return _fail(request, name, problem)
    # A page instead of a redirect: the policy of forms (CSP) allows our own addresses only.
    return render(request, "catalog/account_leaving.html", {"address": address, "name": name})


@never_cache
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """Receive the answer of an authorization server, in the session that began the sign-in."""
    if not request.user.is_authenticated:
        # Not the sign-in page: it would carry the code of the answer along.
        return _fail(request, "", AccountProblem("state"))
    user = request.user
    try:
        secret, connected = flow.finish(request.session, user, request.GET.dict())
        card = _find(user, secret.name)
        if card is None:
            flow.discard(secret, connected)
            raise AccountProblem("changed")
    except AccountProblem as problem:
        return _fail(request, "", problem)
    shown = set(connected.begun.allowed)
    allowed = {receiver.key: receiver.label for receiver in card.current() if receiver.key in shown}
    flow.store(user, secret, connected, allowed)
    messages.success(
        request, _("“%s” is connected. Your tools use it from now on: go back to your client.") % secret.name
    )
    if len(allowed) < len(card.current()):
        messages.warning(request, _("There are destinations that you have not allowed yet. Review them below."))
    return redirect("catalog:secrets")


@cache_control(public=True, max_age=3600)
@require_safe
def document(request: HttpRequest) -> HttpResponse:
    """Describe this server as a client (OAuth Client ID Metadata Document): authorization servers fetch it."""
    address = clients.document_url()
    if not address:
        raise Http404
    return JsonResponse({"client_id": address, **clients.describe(), "token_endpoint_auth_method": "none"})


def _fail(request: HttpRequest, name: str, problem: AccountProblem) -> HttpResponse:
    context = {"section": "secrets", "name": name, "problem": problems.describe(problem)}
    return render(request, "catalog/account_problem.html", context, status=429 if problem.code == "too_many" else 400)
