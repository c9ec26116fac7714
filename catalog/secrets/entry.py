"""Forms that take the value of a secret: it is entered once, encrypted, and never sent back to a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from django import forms
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from catalog import host_patterns
from catalog.encryption import KeysError
from catalog.models import Secret
from catalog.runners.settings_errors import SettingsProblem
from catalog.secrets.resolve import check_value
from toolhub import egress

MAX_VALUE_CHARACTERS = 65_536
MAX_NAME_CHARACTERS = 64


class WriteOnlyWidget(UnfoldAdminTextareaWidget):  # type: ignore[misc]
    """A widget of several lines, for keys; the entered value is never sent back, not even with an error."""

    def __init__(self) -> None:
        super().__init__(
            attrs={
                "rows": 3,
                "autocomplete": "off",
                "spellcheck": "false",
                "style": "font-family: monospace; -webkit-text-security: disc",
            }
        )

    def format_value(self, value: Any) -> str:
        return ""


@sensitive_variables("value")
def enter_value(form: forms.BaseForm, field: str, enter: Callable[[str], None], value: str) -> None:
    """Encrypt what was entered in this field with `enter`; without a usable key, the field gets the error."""
    try:
        enter(value)
    except KeysError as error:
        form.add_error(
            field, gettext("The value cannot be encrypted: %s. Ask the operator to fix this setting.") % error
        )


def may_create(request: HttpRequest) -> bool:
    """Return whether the signed-in user may create secrets: the permission that the page of secrets asks for."""
    return bool(request.user.has_perm("catalog.add_secret"))


def suggest_name(text: str, taken: Collection[str]) -> str:
    """Return a free name of a secret that is made from this text."""
    start = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[: MAX_NAME_CHARACTERS - 4].strip("_") or "secret"
    name, number = start, 2
    while name in taken:
        name, number = f"{start}_{number}", number + 1
    return name


class NewSecretForm(forms.ModelForm):  # type: ignore[type-arg]
    """A new secret for one API, on a page that is about something else. Accounts have a page of their own."""

    KINDS = (
        (Secret.Kind.SHARED.value, Secret.Kind.SHARED.label),
        (Secret.Kind.PERSONAL.value, Secret.Kind.PERSONAL.label),
    )

    kind = forms.ChoiceField(label=_("kind"), choices=KINDS, widget=UnfoldAdminSelectWidget)
    value = forms.CharField(
        required=False,
        max_length=MAX_VALUE_CHARACTERS,
        widget=WriteOnlyWidget(),
        validators=[check_value],
        label=_("value"),
        help_text=_("The value is never shown again. Leave it empty for a personal secret."),
    )
    bound = forms.BooleanField(
        required=False,
        initial=True,
        widget=UnfoldBooleanWidget,
        label=_("Send it only to the server chosen above"),
        help_text=_("When off, tools and upstream servers may send it anywhere. Its page can name other hosts."),
    )

    class Meta:
        model = Secret
        fields = ("name", "kind")
        widgets = {"name": UnfoldAdminTextInputWidget(attrs={"spellcheck": "false", "autocomplete": "off"})}
        help_texts = {"name": _("Lower-case letters, digits and underscores.")}

    use_required_attribute = False  # the browser must not ask for the fields of a secret that nobody chose

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "value" in self.errors:
            return cleaned
        if cleaned.get("kind") == Secret.Kind.PERSONAL and cleaned.get("value"):
            self.add_error("value", _("A personal secret has no value here. Each user enters their own."))
        elif cleaned.get("kind") == Secret.Kind.SHARED and not cleaned.get("value"):
            self.add_error("value", _("Enter the value of the secret."))
        return cleaned

    def _post_clean(self) -> None:
        if self.cleaned_data.get("value") and self.cleaned_data.get("name") and not self.errors:
            self.instance.name = self.cleaned_data["name"]  # a value is encrypted for its name
            enter_value(self, "value", self.instance.enter, self.cleaned_data["value"])
        super()._post_clean()  # type: ignore[misc]

    def bind(self, server: str) -> None:
        """Bind the secret to the host of this URL if the form says so; the form gets an error for an odd host."""
        if not self.cleaned_data.get("bound"):
            return
        try:
            self.instance.hosts = host_patterns.normalise([egress.origin_of(server)])
        except (SettingsProblem, egress.DeniedAddress) as problem:
            self.add_error("bound", gettext("%(text)s.") % {"text": problem.localized_message})

    def ask_again(self) -> None:
        """Say that the value has to be entered again, where the page is shown again for another reason."""
        if self.cleaned_data.get("value") and "value" not in self.errors:
            self.add_error("value", _("The secret was not created. Enter its value again when you fix the form."))

    def create(self) -> Secret | None:
        """Save the secret. Return None, with an error in the form, if its name was taken in the meantime."""
        try:
            with transaction.atomic():
                made: Secret = self.save()
        except IntegrityError:
            self.add_error("name", _("A secret with this name already exists. Choose another name."))
            return None
        return made
