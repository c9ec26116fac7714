"""Pages of the signed-in user: account, tokens, connecting a client. Every row is filtered by `request.user`.

Also the help page for a browser that opens /mcp.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any, cast
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse, reverse_lazy
from django.utils import translation
from django.utils.translation import get_supported_language_variant
from django.utils.translation import gettext as _
from django.utils.translation.trans_real import parse_accept_lang_header
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.i18n import set_language

from toolhub.access import connect as connect_page
from toolhub.access import device_cookies, hooks, preferences, sign_in, temporary_passwords
from toolhub.access.forms import AccountForm, NewPasswordForm, SignInForm, TokenForm, native_language_names
from toolhub.access.models import AccessToken, AccessTokenQuerySet

MAX_TOKENS = 100
"""Maximum number of usable tokens of one user: a script that creates one per run must not fill the table."""


class SignIn(auth_views.LoginView):
    template_name = "access/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer; a sign-in for a client that runs in a web page keeps the window that opened this one."""
        response = super().dispatch(request, *args, **kwargs)
        sign_in.keep_opener(response, self.get_redirect_url())
        return response

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Sign the person in, unless the account has a second factor: then the password is only the first step."""
        user = form.get_user()
        address = hooks.installed().second_step(self.request, user, self.get_redirect_url())
        if address is None:
            sign_in.complete(self.request, user, "password")
            address = self.get_success_url()
        return HttpResponseRedirect(address)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        wanted = self.get_redirect_url()
        here = reverse("access:login") + (f"?{urlencode({'next': wanted})}" if wanted else "")
        return super().get_context_data(**kwargs, languages=native_language_names(), here=here)

    def get_default_redirect_url(self) -> str:
        return sign_in.find_first_page(cast(User, self.request.user))


class PasswordView(auth_views.PasswordChangeView):
    """A page for one's own new password: it passes the request to the form, and renews the device cookie."""

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "request": self.request}

    def form_valid(self, form: Any) -> HttpResponse:
        answer = super().form_valid(form)
        device_cookies.remember(request=self.request, user=form.user)
        return answer


class NewPassword(PasswordView):
    template_name = "access/password.html"
    form_class = NewPasswordForm
    success_url = reverse_lazy("access:account")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs, temporary=temporary_passwords.find(self.request.user))

    def form_valid(self, form: Any) -> HttpResponse:
        messages.success(self.request, _("Your password was changed. Other browsers were signed out."))
        return super().form_valid(form)


@require_POST
def language(request: HttpRequest) -> HttpResponseBase:
    """Store the language in a cookie, for visitors who are not signed in."""
    return set_language(request)


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """Show and save the user's name, language and time zone."""
    user = cast(User, request.user)
    preference = preferences.find_preference(user)
    form = AccountForm(request.POST or None, instance=User.objects.get(pk=user.pk), preference=preference)
    if request.method == "POST" and form.is_valid():
        form.save()
        preferences.apply_to_session(request, preference)
        with translation.override(preference.language or translation.get_language()):
            messages.success(request, _("Your account was saved."))
        return redirect("access:account")
    return render(request, "access/account.html", {"form": form, "section": "account"})


@require_safe
def home(request: HttpRequest) -> HttpResponseRedirect:
    """Redirect to the user's tools, or to the sign-in.

    The redirect to the sign-in asks for no page, so that the target is decided after it.
    """
    return redirect("catalog:tools" if request.user.is_authenticated else "access:login")


def _own_tokens(request: HttpRequest) -> AccessTokenQuerySet:
    return AccessToken.objects.filter(user=cast(User, request.user))


def _has_too_many_tokens(request: HttpRequest) -> bool:
    return _own_tokens(request).usable().count() >= MAX_TOKENS


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("text")
def tokens(request: HttpRequest) -> HttpResponse:
    """Show the list of tokens, and a form whose answer shows the new token in that one answer only."""
    user = cast(User, request.user)
    toolset_ids = hooks.installed().toolsets_for(user.pk)
    form = TokenForm(request.POST or None, toolset_ids=toolset_ids)
    text = ""
    if request.method == "POST" and form.is_valid():
        if _has_too_many_tokens(request):
            form.add_error(
                None,
                _("You have reached the maximum of %d active tokens. Revoke one that you no longer use.") % MAX_TOKENS,
            )
        else:
            chosen = form.cleaned_data.get("toolsets")
            _token, text = AccessToken.objects.issue(
                user, form.cleaned_data["name"], days=form.cleaned_data["days"], toolsets=chosen or None
            )
            form = TokenForm(toolset_ids=toolset_ids)
    rows = list(_own_tokens(request).prefetch_related("toolsets")[:300])
    context = {
        "section": "tokens",
        "form": form,
        "usable": [token for token in rows if token.is_usable],
        "ended": [token for token in rows if not token.is_usable],
        "text": text,
    }
    return render(request, "access/tokens.html", context)


@login_required
@require_POST
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    token = get_object_or_404(_own_tokens(request), pk=pk)
    if token.revoke():
        messages.success(request, _("“%s” was revoked. Clients that use it are now rejected.") % token.name)
    return redirect("access:tokens")


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("text", "context")
def connect(request: HttpRequest, key: str = connect_page.CLIENTS[0].key) -> HttpResponse:
    """Show how to connect one client: by signing in, or with a token that a POST creates and shows in its settings."""
    client = connect_page.CLIENTS_BY_KEY.get(key)
    if client is None:
        raise Http404
    text = credential = ""
    if request.method == "POST" and client.snippets:
        if _has_too_many_tokens(request):
            messages.error(
                request,
                _("You have reached the maximum of %d active tokens. Revoke one that you no longer use.") % MAX_TOKENS,
            )
            return HttpResponseRedirect(reverse("access:tokens"))
        token, text = AccessToken.objects.issue(cast(User, request.user), str(client.title))
        credential = token.credential_id
    public_url = settings.PUBLIC_URL
    context = {
        "section": "connect",
        "clients": connect_page.CLIENTS,
        "client": client,
        "sign_in": connect_page.fill_sign_in(client, public_url),
        "snippets": connect_page.fill(client, public_url, text),
        "deeplink": connect_page.deeplink(client, public_url),
        "signs_in": bool(client.sign_in) and not text,
        "needs_tls": bool(client.sign_in) and not connect_page.is_secure(public_url),
        "out_of_reach": client.needs_public_address and not connect_page.is_public(public_url),
        "text": text,
        "credential": credential,
        "troubles": connect_page.TROUBLES,
        "nothing": not hooks.installed().has_any_access(cast(User, request.user).pk),
        "mcp_url": f"{public_url}/mcp",
        "websocket_url": "ws" + public_url.removeprefix("http") + "/ws/mcp",
    }
    return render(request, "access/connect.html", context)


def mcp_help(accepted: str = "") -> bytes:
    """Return the page for a browser at /mcp, in one of these languages.

    It is rendered once for each language, and needs no database.
    """
    return _mcp_help(_language(accepted))


def _language(accepted: str) -> str:
    """Return the first language of an Accept-Language header that the pages support."""
    for code, _quality in parse_accept_lang_header(accepted.lower()):
        with suppress(LookupError):
            return get_supported_language_variant(code)
    return settings.LANGUAGE_CODE


@cache
def _mcp_help(language: str) -> bytes:
    with translation.override(language):
        return render_to_string("access/mcp_help.html", {"mcp_url": f"{settings.PUBLIC_URL}/mcp"}).encode()
