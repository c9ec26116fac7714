"""Forms of the user area: sign-in (throttled), account, new password, tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from django.utils.functional import Promise
from django.utils.translation import get_language_info, gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.forms import AdminOwnPasswordChangeForm

from toolhub import client_address, contact
from toolhub.access import device_cookies, rotation, throttle
from toolhub.access.models import DEFAULT_DAYS, MAX_NAME_CHARACTERS, Preference, check_name
from toolhub.time_zones import zones

NAME_RATE, ADDRESS_RATE, ACCOUNT_RATE, DEVICE_RATE = "10/10m", "60/10m", "100/h", "10/10m"
"""Rates of wrong passwords: of one account from one address, of one address for all accounts, of one account from
everywhere, and of a browser that signed in to the account before, which counts for itself alone."""


MAX_KEY_CHARACTERS = 18


@contextmanager
def throttled(request: HttpRequest | None, name: str) -> Iterator[None]:
    """Reject a password after too many wrong ones; a ValidationError raised inside is one.

    Raises ValidationError when a rate is exceeded.
    """
    advice = _("If these were not your attempts, use a browser in which you signed in before.")
    with bound_guesses(request, list_counters(request, name), advice, advise_forgotten()):
        yield


@contextmanager
def bound_guesses(
    request: HttpRequest | None, counters: Sequence[throttle.Counter], *advice: str | Promise
) -> Iterator[None]:
    """Reject a guess, with this advice, when a counter is full; a ValidationError raised inside is a wrong guess.

    Raises ValidationError when a rate is exceeded; the answer then has status 429 (see `middleware.SignInProtection`).
    """
    guess = throttle.reserve(counters)
    if guess.seconds:
        if request is not None:
            request.throttled_seconds = guess.seconds  # type: ignore[attr-defined]
        minutes = -(-guess.seconds // 60)
        wait = ngettext(
            "Too many failed attempts. Try again in %(minutes)d minute.",
            "Too many failed attempts. Try again in %(minutes)d minutes.",
            minutes,
        ) % {"minutes": minutes}
        raise ValidationError([wait, *advice], code="throttled")
    try:
        yield
    except ValidationError:
        raise
    except BaseException:
        guess.give_back()
        raise
    guess.give_back()


def can_reset_passwords() -> bool:
    """Return whether people can choose a new password by mail: see `toolhub.people.password_reset`."""
    return bool(settings.LOCAL_PASSWORDS and settings.EMAIL_HOST)


def advise_forgotten() -> str:
    """Return what to do about a forgotten password."""
    if can_reset_passwords():
        return gettext("If you forgot your password, choose “Forgot your password?” on the sign-in page.")
    return contact.fill(_("If you forgot your password, ask %(contact)s for a new one."))


def list_counters(request: HttpRequest | None, name: str) -> list[throttle.Counter]:
    """Return what a wrong password for this account counts for, from this browser."""
    if device := device_cookies.find_device(request, name):
        return [throttle.Counter("device", device, DEVICE_RATE)]
    address = client_address.counted(str(request.META.get("REMOTE_ADDR", ""))) if request is not None else ""
    account = name.casefold()
    return [
        throttle.Counter("sign-in", f"{account}\n{address}", NAME_RATE),
        throttle.Counter("sign-in-address", address, ADDRESS_RATE),
        throttle.Counter("sign-in-account", account, ACCOUNT_RATE),
    ]


class ThrottledMixin:
    """A form mixin that throttles sign-ins; unknown accounts are counted and answered like known ones."""

    request: HttpRequest | None
    cleaned_data: dict[str, Any]

    def clean(self) -> dict[str, Any]:
        with throttled(self.request, str(self.cleaned_data.get("username", ""))):
            return super().clean()  # type: ignore[misc, no-any-return]


class SignInForm(ThrottledMixin, AuthenticationForm):
    """The sign-in form, which leads to the admin too."""


class OldPasswordMixin:
    """A form mixin for a new password; a wrong old password counts like a failed sign-in."""

    user: Any

    def __init__(self, user: Any, *args: Any, request: HttpRequest | None = None, **kwargs: Any) -> None:
        super().__init__(user, *args, **kwargs)  # type: ignore[call-arg]
        self.request = request

    def clean_old_password(self) -> str:
        with throttled(self.request, self.user.get_username()):
            return str(super().clean_old_password())  # type: ignore[misc]


class NewPasswordForm(OldPasswordMixin, PasswordChangeForm):
    """The form for a new password of the user area."""


class AdminNewPasswordForm(OldPasswordMixin, AdminOwnPasswordChangeForm):  # type: ignore[misc]
    """The form for a new password of the admin, with the same counters."""


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


class ToolsetsField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    """A choice among toolsets, each with a checkbox."""

    widget = forms.CheckboxSelectMultiple

    def clean(self, value: Any) -> Any:
        for one in value or ():
            if len(str(one)) > MAX_KEY_CHARACTERS:  # no database can look for such a number
                raise ValidationError(
                    self.error_messages["invalid_pk_value"], code="invalid_pk_value", params={"pk": one}
                )
        return super().clean(value)


class TokenNameForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=MAX_NAME_CHARACTERS,
        validators=[check_name],
        help_text=_("The client or machine that uses the token, for example “Cursor on my laptop”."),
    )


MAX_OWN_DAYS = 365
"""Maximum number of days for which people create tokens themselves."""


class TokenForm(TokenNameForm):
    days = forms.TypedChoiceField(
        label=_("Valid for"),
        coerce=int,
        initial=DEFAULT_DAYS,
        choices=(
            (7, _("7 days")),
            (30, _("30 days")),
            (90, _("90 days")),
            (180, _("180 days")),
            (MAX_OWN_DAYS, _("1 year")),
        ),
    )
    toolsets = ToolsetsField(
        label=_("Only these toolsets"),
        queryset=None,
        required=False,
        help_text=_("If you choose none, the token can use everything you have access to."),
    )

    def __init__(self, *args: Any, toolset_ids: frozenset[int] = frozenset(), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = cast(ToolsetsField, self.fields["toolsets"])
        field.queryset = apps.get_model("catalog", "Toolset")._default_manager.filter(pk__in=toolset_ids)
        if not toolset_ids:
            del self.fields["toolsets"]


class RotateForm(forms.Form):
    keep = forms.TypedChoiceField(
        label=_("The old token works for"),
        coerce=int,
        initial=rotation.DEFAULT_KEEP_HOURS,
        choices=rotation.KEEP_CHOICES,
    )
