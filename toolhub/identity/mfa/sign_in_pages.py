"""Pages of a sign-in beside the password: the second step, and a passkey in place of the password."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from toolhub import client_address
from toolhub.access import sign_in, throttle
from toolhub.access.forms import bound_guesses
from toolhub.access.views import SignIn
from toolhub.identity.mfa import factors, passkeys, proofs, second_step

WRONG_RATE, CHALLENGES_RATE = "60/10m", "600/10m"
"""Rates, for one address, of passkeys that are not accepted, and of challenges."""
ADVICE = gettext_lazy("If you cannot use your passkey, sign in with your password.")


def _address(request: HttpRequest) -> str:
    return client_address.counted(str(request.META.get("REMOTE_ADDR", "")))


@never_cache
@require_POST
def passkey_options(request: HttpRequest) -> HttpResponse:
    """Return a challenge for any passkey of anybody."""
    seconds = throttle.wait_seconds("passkey-challenges", _address(request), CHALLENGES_RATE, count=True)
    if seconds:
        request.throttled_seconds = seconds  # type: ignore[attr-defined]
        return JsonResponse({"error": _("Too many failed attempts. Try again later.")}, status=429)
    return JsonResponse(passkeys.begin(request, "sign-in"))


@method_decorator([never_cache, require_POST, sensitive_post_parameters("credential")], name="dispatch")
class PasskeySignIn(SignIn):
    """The sign-in page when a browser answers with a passkey."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            with bound_guesses(request, [throttle.Counter("passkey", _address(request), WRONG_RATE)], ADVICE):
                user, method = proofs.take_passkey(request, "sign-in", request.POST.get("credential", ""))
        except ValidationError as refusal:
            proofs.report_failure(request, getattr(refusal, "user", None), "passkey")
            form = self.authentication_form(request)
            return self.render_to_response(self.get_context_data(form=form, problems=refusal.messages))
        sign_in.complete(request, user, method)
        return HttpResponseRedirect(self.get_success_url())


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def second(request: HttpRequest) -> HttpResponse:
    """Ask for a second factor after a password that was right, and begin the session."""
    waiting = second_step.find(request)
    if waiting is None:
        return _start_again(request)
    problems: list[str] = []
    if request.method == "POST":
        try:
            kind = proofs.take(request, waiting.user, "second-step")
        except ValidationError as refusal:
            problems = refusal.messages
            proofs.report_failure(request, waiting.user, "second factor")
        else:
            sign_in.complete(request, waiting.user, f"password+{kind}")
            return redirect(sign_in.find_target(request, waiting.user, waiting.target))
    form = proofs.CodeForm()
    form.fields["code"].widget.attrs["autofocus"] = True
    context = {
        "form": form,
        "problems": problems,
        "has_app": factors.find(waiting.user.pk, factors.APP).exists(),
        "has_passkey": factors.find(waiting.user.pk, factors.PASSKEY).exists(),
        "name": waiting.user.get_username(),
    }
    response = render(request, "identity/mfa/second_step.html", context)
    sign_in.keep_opener(response, waiting.target)
    return response


@never_cache
@require_POST
def second_options(request: HttpRequest) -> HttpResponse:
    """Return a challenge for the passkeys of the person at the second step."""
    waiting = second_step.find(request)
    if waiting is None:
        return JsonResponse({"location": reverse("access:login")}, status=403)
    return JsonResponse(passkeys.begin(request, "second-step", waiting.user))


def _start_again(request: HttpRequest) -> HttpResponse:
    kept = request.session.pop(second_step.KEY, None)
    if kept is None or request.user.is_authenticated:
        return redirect("access:login")
    messages.error(request, _("Your password was too long ago, or has changed. Sign in again."))
    wanted = f"?{urlencode({'next': kept['target']})}" if kept["target"] else ""
    return redirect(f"{reverse('access:login')}{wanted}")
