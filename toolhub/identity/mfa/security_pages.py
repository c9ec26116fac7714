"""`/account/security/`: a person's passkeys, authenticator app and recovery codes."""

from __future__ import annotations

from urllib.parse import quote

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from catalog.encryption import KeysError
from toolhub import contact
from toolhub.access import sign_in
from toolhub.access.forms import throttled
from toolhub.identity.mfa import codes, factors, passkeys, proofs, requirement
from toolhub.identity.mfa.proofs import fresh, person

CODE_MESSAGES = {"required": gettext_lazy("Enter the code that your app shows.")}


class NameForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=passkeys.MAX_NAME_CHARACTERS,
        help_text=gettext_lazy("Where you keep it, for example “Laptop” or “Security key”."),
    )


class AppCodeForm(forms.Form):
    code = forms.CharField(
        label=gettext_lazy("Code"),
        max_length=codes.MAX_CODE_CHARACTERS,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "spellcheck": "false"}),
        error_messages=CODE_MESSAGES,
    )


class PasswordForm(forms.Form):
    password = forms.CharField(
        label=gettext_lazy("Password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


@login_required
@never_cache
@require_safe
def security(request: HttpRequest) -> HttpResponse:
    """Show the second factors of the person, and what they can add."""
    user = person(request)
    passkey_rows = list(factors.find(user.pk, factors.PASSKEY)[: passkeys.MAX_PASSKEYS])
    app = factors.find(user.pk, factors.APP).first()
    context = {
        "section": "account",
        "passkeys": passkey_rows,
        "app": app,
        "has_factor": bool(app or passkey_rows),
        "recovery": factors.find(user.pk, factors.CODES).first(),
        "left": codes.count_unused_recovery_codes(user),
        "wanted": requirement.applies_to(user),
        "full": len(passkey_rows) >= passkeys.MAX_PASSKEYS,
    }
    return render(request, "identity/mfa/security.html", context)


# --- confirming who it is --------------------------------------------------------------------------------------------


@login_required
@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: HttpRequest) -> HttpResponse:
    """Ask for the password or a second factor before a change."""
    user = person(request)
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    problems: list[str] = []
    if request.method == "POST":
        try:
            _confirm(request, user)
        except ValidationError as refusal:
            problems = refusal.messages
        else:
            sign_in.confirm(request)
            is_ours = url_has_allowed_host_and_scheme(
                wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
            )
            return redirect(wanted if is_ours else "mfa:security")
    has_factor = factors.has_any(user.pk)
    context = {
        "section": "account",
        "problems": problems,
        "next": wanted,
        "password_form": PasswordForm() if user.has_usable_password() else None,
        "code_form": proofs.CodeForm() if has_factor else None,
        "has_passkey": factors.find(user.pk, factors.PASSKEY).exists(),
    }
    return render(request, "identity/mfa/confirm.html", context)


def _confirm(request: HttpRequest, user: User) -> None:
    """Check what the form proves. Raises ValidationError."""
    if "password" not in request.POST:
        proofs.take(request, user, "confirm")
        return
    with throttled(request, user.get_username()):
        if not user.check_password(request.POST["password"]):
            raise ValidationError(_("Your password was wrong. Enter it again."))


@login_required
@never_cache
@require_POST
def confirm_options(request: HttpRequest) -> HttpResponse:
    """Return a challenge for the person's passkeys."""
    return JsonResponse(passkeys.begin(request, "confirm", person(request)))


# --- passkeys --------------------------------------------------------------------------------------------------------


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@fresh
@sensitive_variables("made")
def add_passkey(request: HttpRequest) -> HttpResponse:
    """Name a passkey, and store the one that the browser created."""
    user = person(request)
    form, problems = NameForm(request.POST or None), []
    if factors.find(user.pk, factors.PASSKEY).count() >= passkeys.MAX_PASSKEYS:
        messages.error(request, _("You have reached the maximum of %d passkeys.") % passkeys.MAX_PASSKEYS)
        return redirect("mfa:security")
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                row = passkeys.add(request, user, form.cleaned_data["name"], request.POST.get("credential", ""))
                made = codes.make_missing_recovery_codes(user)
        except passkeys.Refused:
            problems = [_("The passkey was not added. Try again, and confirm on your device within five minutes.")]
        except KeysError:
            problems = [_no_keys()]
        else:
            return _finish(request, made, _("The passkey “%s” was added.") % row)
    return render(request, "identity/mfa/add_passkey.html", {"section": "account", "form": form, "problems": problems})


@login_required
@never_cache
@require_POST
@fresh
def add_options(request: HttpRequest) -> HttpResponse:
    """Return what the browser needs to create a passkey."""
    return JsonResponse(passkeys.begin_adding(request, person(request)))


@login_required
@require_POST
@fresh
def rename_passkey(request: HttpRequest, pk: int) -> HttpResponse:
    form = NameForm(request.POST)
    if not factors.find(person(request).pk, factors.PASSKEY).filter(pk=pk).exists():
        raise Http404
    if form.is_valid() and passkeys.rename(person(request), pk, form.cleaned_data["name"]):
        messages.success(request, _("The passkey was renamed."))
    else:
        messages.error(request, _("Enter a name of at most %d characters.") % passkeys.MAX_NAME_CHARACTERS)
    return redirect("mfa:security")


@login_required
@require_POST
@fresh
def remove_passkey(request: HttpRequest, pk: int) -> HttpResponse:
    removed = factors.remove(person(request).pk, factors.PASSKEY, pk)
    if not removed:
        raise Http404
    messages.success(request, _("The passkey “%s” was removed. Delete it on your device too.") % removed[0])
    return redirect("mfa:security")


# --- the authenticator app -------------------------------------------------------------------------------------------


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@fresh
@sensitive_variables("seed", "context", "made")
def set_up_app(request: HttpRequest) -> HttpResponse:
    """Show the seed to an authenticator app, and make the app a second factor once it shows a right code."""
    user = person(request)
    if factors.find(user.pk, factors.APP).exists():
        messages.info(request, _("Your authenticator app is set up already. Remove it first to set up another one."))
        return redirect("mfa:security")
    form = AppCodeForm(request.POST or None)
    try:
        if request.method == "POST" and form.is_valid():
            with transaction.atomic():
                is_right = codes.finish_set_up(request, user, form.cleaned_data["code"])
                made = codes.make_missing_recovery_codes(user) if is_right else []
            if is_right:
                return _finish(request, made, _("Your authenticator app was set up."))
            form.add_error("code", _("This code is wrong. Check the clock of your device, and enter the next code."))
        seed = codes.start_set_up(request, user)
    except KeysError:
        messages.error(request, _no_keys())
        return redirect("mfa:security")
    context = {
        "section": "account",
        "form": form,
        "picture": codes.draw_qr_code(user, seed),
        "seed": " ".join(seed[start : start + 4] for start in range(0, len(seed), 4)),
    }
    return render(request, "identity/mfa/set_up_app.html", context)


@login_required
@require_POST
@fresh
def remove_app(request: HttpRequest) -> HttpResponse:
    if factors.remove(person(request).pk, factors.APP):
        messages.success(request, _("Your authenticator app was removed. Delete the entry in the app too."))
    return redirect("mfa:security")


# --- recovery codes --------------------------------------------------------------------------------------------------


@login_required
@never_cache
@require_POST
@fresh
@sensitive_variables("made")
def replace_recovery_codes(request: HttpRequest) -> HttpResponse:
    """Make new recovery codes, which this answer alone shows."""
    user = person(request)
    if not factors.has_any(user.pk):
        messages.error(request, _("Add a passkey or an authenticator app first."))
        return redirect("mfa:security")
    try:
        made = codes.replace_recovery_codes(user)
    except KeysError:
        messages.error(request, _no_keys())
        return redirect("mfa:security")
    return _finish(request, made, _("Your earlier recovery codes are no longer valid."))


@sensitive_variables("made", "context")
def _finish(request: HttpRequest, made: list[str], sentence: str) -> HttpResponse:
    """Show new recovery codes once; without new ones, return to the list."""
    messages.success(request, sentence)
    if not made:
        return redirect("mfa:security")
    text = "\n".join([f"toolhub {settings.PUBLIC_URL} {person(request).get_username()}", "", *made, ""])
    context = {"section": "account", "codes": "\n".join(made), "file": f"data:text/plain;charset=utf-8,{quote(text)}"}
    return render(request, "identity/mfa/recovery_codes.html", context)


def _no_keys() -> str:
    sentence = _("The server has no key to encrypt this with. Ask %(contact)s to set TOOLHUB_ENCRYPTION_KEYS.")
    return contact.fill(sentence)
