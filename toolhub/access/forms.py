"""Forms of the user area: sign-in (throttled), account, new password, new token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from django import forms
from django.apps import apps
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import get_language_info, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.forms import AuthenticationForm as AdminAuthenticationForm

from toolhub.access import throttle
from toolhub.access.models import DEFAULT_DAYS, Preference
from toolhub.access.preferences import zones

NAME_RATE, ADDRESS_RATE = "10/10m", "60/10m"
"""Rates of failed sign-ins: of one account from one address, and of one address for all accounts."""


@contextmanager
def throttled(request: HttpRequest | None, name: str) -> Iterator[None]:
    """Reject a sign-in after too many failed ones; a ValidationError raised inside counts as one failure.

    Raises ValidationError when the rate is exceeded.
    """
    address = str(request.META.get("REMOTE_ADDR", "")) if request is not None else ""
    keys = [("sign-in", f"{name.casefold()}\n{address}", NAME_RATE), ("sign-in-address", address, ADDRESS_RATE)]
    if seconds := max(throttle.wait_seconds(*key, count=False) for key in keys):
        minutes = -(-seconds // 60)
        raise ValidationError(
            ngettext(
                "Too many failed attempts. Try again in %(minutes)d minute.",
                "Too many failed attempts. Try again in %(minutes)d minutes.",
                minutes,
            )
            % {"minutes": minutes},
            code="throttled",
        )
    try:
        yield
    except ValidationError:
        for key in keys:
            throttle.wait_seconds(*key, count=True)
        raise


class ThrottledMixin:
    """A form mixin that throttles sign-ins; unknown accounts are counted and answered like known ones."""

    request: HttpRequest | None
    cleaned_data: dict[str, Any]

    def clean(self) -> dict[str, Any]:
        with throttled(self.request, str(self.cleaned_data.get("username", ""))):
            return super().clean()  # type: ignore[misc, no-any-return]


class SignInForm(ThrottledMixin, AuthenticationForm):
    """The sign-in form of the user area."""


class AdminSignInForm(ThrottledMixin, AdminAuthenticationForm):  # type: ignore[misc]
    """The sign-in form of the admin, with the same counters."""


class NewPasswordForm(PasswordChangeForm):
    """Django's form for a new password; a wrong old password counts like a failed sign-in."""

    def __init__(self, user: Any, *args: Any, request: HttpRequest | None = None, **kwargs: Any) -> None:
        super().__init__(user, *args, **kwargs)
        self.request = request

    def clean_old_password(self) -> str:
        with throttled(self.request, self.user.get_username()):
            return str(super().clean_old_password())


class AccountForm(forms.ModelForm):  # type: ignore[type-arg]
    """The settings that users may change about themselves."""

    language = forms.ChoiceField(label=_("Language"), required=False)
    time_zone = forms.ChoiceField(
        label=_("Time zone"), required=False, help_text=_("Your pages show times in this time zone.")
    )

    class Meta:
        model = User
        fields = ("first_name", "last_name")

    def __init__(self, *args: Any, preference: Preference, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.preference = preference
        language, zone = self.fields["language"], self.fields["time_zone"]
        language.choices = [("", _("Use the browser setting")), *native_language_names()]  # type: ignore[attr-defined]
        named = ((name, name.replace("_", " ")) for name in sorted(zones()))
        zone.choices = [("", _("Use the browser setting")), *named]  # type: ignore[attr-defined]
        language.initial, zone.initial = preference.language, preference.time_zone

    def save(self, commit: bool = True) -> Any:
        self.preference.language = self.cleaned_data["language"]
        self.preference.time_zone = self.cleaned_data["time_zone"]
        with transaction.atomic():
            user = super().save(commit)
            self.preference.save()
        return user


def native_language_names() -> list[tuple[str, str]]:
    """Return the languages, each by its own name, so that everyone can find theirs."""
    return [(code, get_language_info(code)["name_local"]) for code, _name in settings.LANGUAGES]


class TokenForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=100,
        help_text=_("The client or machine that uses the token, for example “Cursor on my laptop”."),
    )
    days = forms.TypedChoiceField(
        label=_("Valid for"),
        coerce=int,
        initial=DEFAULT_DAYS,
        choices=((7, _("7 days")), (30, _("30 days")), (90, _("90 days")), (180, _("180 days")), (365, _("1 year"))),
    )
    toolsets: forms.ModelMultipleChoiceField[Any] = forms.ModelMultipleChoiceField(
        label=_("Only these toolsets"),
        queryset=None,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("If you choose none, the token can use everything you have access to."),
    )

    def __init__(self, *args: Any, toolset_ids: frozenset[int] = frozenset(), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = cast("forms.ModelMultipleChoiceField[Any]", self.fields["toolsets"])
        field.queryset = apps.get_model("catalog", "Toolset")._default_manager.filter(pk__in=toolset_ids)
        if not toolset_ids:
            del self.fields["toolsets"]
