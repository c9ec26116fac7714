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
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse, reverse_lazy
from django.utils import timezone, translation
from django.utils.translation import get_supported_language_variant
from django.utils.translation import gettext as _
from django.utils.translation.trans_real import parse_accept_lang_header
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.i18n import set_language

from toolhub.access import connect as connect_page
from toolhub.access import device_cookies, ended_sessions, hooks, preferences, rotation, sign_in, temporary_passwords
from toolhub.access.backends import may_use_password
from toolhub.access.forms import (
    MAX_KEY_CHARACTERS,
    MAX_OWN_DAYS,
    AccountForm,
    NewPasswordForm,
    RotateForm,
    SignInForm,
    TokenForm,
    TokenNameForm,
    can_reset_passwords,
    native_language_names,
)
from toolhub.access.models import AccessToken, AccessTokenQuerySet

MAX_TOKENS = 100
"""Maximum number of usable tokens of one user: a script that creates one per run must not fill the table.

Replaced tokens that still work have a bound of their own, `rotation.MAX_REPLACED_TOKENS`: whoever has all the tokens
that they may have can rotate each of them.
"""
TOKENS_PER_PAGE = 30
MAX_OFFERED_TOKENS = 3
"""Maximum number of tokens of one client that its Connect page offers to rotate."""


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
        return super().get_context_data(
            **kwargs,
            languages=native_language_names(),
            ways=hooks.installed().sign_in_ways(),
            can_reset=can_reset_passwords(),
            local_passwords=settings.LOCAL_PASSWORDS,
            ended=self.request.GET.get(ended_sessions.PARAMETER, "") if not self.request.user.is_authenticated else "",
            here=reverse("access:login") + (f"?{urlencode({'next': wanted})}" if wanted else ""),
        )

    def get_default_redirect_url(self) -> str:
        return sign_in.find_first_page(cast(User, self.request.user))


class PasswordView(auth_views.PasswordChangeView):
    """A page for one's own new password: it passes the request to the form, and renews the device cookie."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer those who can sign in with a password, and who must choose their own first."""
        user = request.user
        usable = user.is_authenticated and user.has_usable_password() and may_use_password(user)
        if user.is_authenticated and not usable and temporary_passwords.SESSION_KEY not in request.session:
            raise Http404
        return super().dispatch(request, *args, **kwargs)

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
    context = {
        "form": form,
        "section": "account",
        "options": hooks.installed().sign_in_options(user.pk),
        "may_use_password": may_use_password(user),
        "has_password": user.has_usable_password() and may_use_password(user),
    }
    return render(request, "access/account.html", context)


@require_safe
def home(request: HttpRequest) -> HttpResponseRedirect:
    """Redirect to the user's tools, to Overview for an administrator without tools, or to the sign-in.

    The redirect to the sign-in asks for no page, so that the target is decided after it.
    """
    return redirect(sign_in.find_home(request.user) if request.user.is_authenticated else "access:login")


def _own_tokens(request: HttpRequest) -> AccessTokenQuerySet:
    return AccessToken.objects.filter(user=cast(User, request.user))


@sensitive_variables()
def _issue_own(request: HttpRequest, name: str, **options: Any) -> tuple[AccessToken, str] | None:
    """Create a token of the person and return it with its text; None when they have MAX_TOKENS that work."""
    user = cast(User, request.user)
    with transaction.atomic():
        # Two requests at once count one after the other.
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if _own_tokens(request).usable().filter(successor=None).count() >= MAX_TOKENS:
            return None
        return AccessToken.objects.issue(user, name, **options)


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("text")
def tokens(request: HttpRequest) -> HttpResponse:
    """Show the list of tokens, and a form whose answer shows the new token in that one answer only."""
    form = _build_token_form(request, request.POST or None)
    text = ""
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        issued = _issue_own(request, given["name"], days=given["days"], toolsets=given.get("toolsets") or None)
        if issued is None:
            form.add_error(
                None,
                _("You have reached the maximum of %d active tokens. Revoke one that you no longer use.") % MAX_TOKENS,
            )
        else:
            text = issued[1]
            form = _build_token_form(request)
    return _render_tokens(request, form=form, text=text)


def _build_token_form(request: HttpRequest, data: Any = None) -> TokenForm:
    return TokenForm(data, toolset_ids=hooks.installed().toolsets_for(cast(User, request.user).pk))


@sensitive_variables("context")
def _render_tokens(request: HttpRequest, **context: Any) -> HttpResponse:
    """Return the page of the tokens; `context` has what happened to one of them, or another form than an empty one."""
    now = timezone.now()
    usable_now = ExpressionWrapper(Q(revoked=None, expires__gt=now), output_field=BooleanField())
    own = _own_tokens(request)
    # Whatever many rotations leave behind, the tokens that work come first.
    found = own.select_related("replaces", "successor").prefetch_related("toolsets").order_by(usable_now.desc(), "-id")
    pages = Paginator(found, TOKENS_PER_PAGE)
    renamed = context.get("renamed")
    if renamed is None:
        page = pages.get_page(request.GET.get("page"))
    else:  # a token that works, with the reason why its new name is none
        page = pages.get_page(own.usable(now).filter(id__gt=renamed.pk).count() // TOKENS_PER_PAGE + 1)
    rows = list(page)
    context = {
        "section": "tokens",
        "form": context.pop("form", None) or _build_token_form(request),
        "rotate_form": RotateForm(),
        "page": page,
        "usable": [token for token in rows if token.is_usable],
        "ended": [token for token in rows if not token.is_usable],
        "listed": {token.pk for token in rows},
        **context,
    }
    return render(request, "access/tokens.html", context)


@login_required
@never_cache
@require_POST
def rename(request: HttpRequest, pk: int) -> HttpResponse:
    """Give a token another name, which the audit log has from the next call on."""
    token = get_object_or_404(_own_tokens(request), pk=pk)
    form = TokenNameForm(request.POST)
    if not token.is_usable:
        messages.error(request, _("An expired or revoked token can't be renamed."))
    elif not form.is_valid():
        return _render_tokens(request, name_form=form, renamed=token)
    else:
        before, token.name = token.name, form.cleaned_data["name"]
        token.save(update_fields=["name"])
        messages.success(request, _("“%(before)s” is now called “%(name)s”.") % {"before": before, "name": token.name})
    return redirect("access:tokens")


@login_required
@never_cache
@require_POST
@sensitive_variables("done")
def rotate(request: HttpRequest, pk: int) -> HttpResponse:
    """Replace a token; this one answer shows the new one."""
    done = _rotate(request, _own_tokens(request), pk)
    return redirect("access:tokens") if done is None else _render_tokens(request, rotation=done, text=done.text)


def _rotate(request: HttpRequest, own: AccessTokenQuerySet, pk: int) -> rotation.Rotation | None:
    """Rotate one of these tokens of the person, or add a message about the reason why not; return None then.

    The new token is its owner's own, also where somebody else created the one before: only the owner sees its text, and
    could as well create it without that one. Raises Http404 for a token that is not among them.
    """
    form = RotateForm(request.POST)
    if not form.is_valid():
        get_object_or_404(own, pk=pk)
        messages.error(request, _("Choose how long the old token works: one of the offered times."))
        return None
    try:
        return rotation.rotate(own, pk, keep_hours=form.cleaned_data["keep"], made_by_owner=True, max_days=MAX_OWN_DAYS)
    except AccessToken.DoesNotExist:
        raise Http404 from None
    except rotation.RotationRefused as refused:
        messages.error(request, rotation.explain(refused))
        return None


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
@sensitive_variables("text", "done", "context")
def connect(request: HttpRequest, key: str = connect_page.CLIENTS[0].key) -> HttpResponse:
    """Show how to connect one client: by signing in, or with a token that a POST creates and shows in its settings.

    A POST that names a token of this client in `rotate` rotates that one instead.
    """
    client = connect_page.CLIENTS_BY_KEY.get(key)
    if client is None:
        raise Http404
    own = _own_tokens(request).filter(client_key=client.key)
    token, text, done = None, "", None
    if request.method == "POST" and client.snippets and "rotate" in request.POST:
        done = _rotate(request, own, _read_key(request.POST["rotate"]))
        if done is None:
            return redirect("access:connect-client", client.key)
        token, text = done.token, done.text
    elif request.method == "POST" and client.snippets:
        issued = _issue_own(request, str(client.title), client_key=client.key)
        if issued is None:
            messages.error(
                request,
                _("You have reached the maximum of %d active tokens. Revoke one that you no longer use.") % MAX_TOKENS,
            )
            return HttpResponseRedirect(reverse("access:tokens"))
        token, text = issued
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
        "token": token,
        "rotation": done,
        "offered": own.usable().filter(successor=None)[:MAX_OFFERED_TOKENS] if client.snippets and not text else (),
        "rotate_form": RotateForm(),
        "credential": token.credential_id if token is not None else "",
        "troubles": connect_page.TROUBLES,
        "nothing": not hooks.installed().has_any_access(cast(User, request.user).pk),
        "mcp_url": f"{public_url}/mcp",
        "websocket_url": "ws" + public_url.removeprefix("http") + "/ws/mcp",
    }
    return render(request, "access/connect.html", context)


def _read_key(text: str) -> int:
    """Return the primary key that a form sent. Raises Http404 for what is none."""
    if not text.isdecimal() or len(text) > MAX_KEY_CHARACTERS:
        raise Http404
    return int(text)


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
