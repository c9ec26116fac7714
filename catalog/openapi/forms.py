"""The two forms of an import: the location of the document, and the choices for all of its tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from catalog.models import Secret, Toolset
from catalog.openapi import document, security, servers
from catalog.openapi.proposals import Choices
from catalog.secrets.entry import NewSecretForm, suggest_name
from toolhub import egress


class SourceForm(forms.Form):
    file = forms.FileField(
        label=_("file"), required=False, widget=UnfoldAdminFileFieldWidget, help_text=_("JSON or YAML, up to 5 MB.")
    )
    url = forms.CharField(
        required=False,
        label=_("or address"),
        max_length=2000,
        widget=UnfoldAdminTextInputWidget,
        help_text=_(
            "The server fetches the document once. List private addresses in TOOLHUB_ALLOW_PRIVATE_NETWORKS first."
        ),
    )

    def clean_file(self) -> Any:
        file = self.cleaned_data["file"]
        if file is not None and file.size > document.MAX_BYTES:
            raise forms.ValidationError(_("The document is larger than 5 MB."))
        return file

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors and bool(cleaned.get("file")) == bool(cleaned.get("url")):
            raise forms.ValidationError(_("Choose a file or enter an address."))
        return cleaned


CREATE = "+"
"""The choice of a secret that is created with the form; it is not the name of one."""
MAX_NEW_SECRETS = 10
"""Security schemes for which a secret can be created on the page: their fields add to those of the operations."""
_NEW_FIELD = re.compile(r"new_[0-9]+-")


def asks_for_new_secret(data: Mapping[str, Any]) -> bool:
    """Return whether what was sent asks for a new secret, or has a value for one."""
    chosen = (name for name, value in data.items() if name.startswith("secret_") and value == CREATE)
    return any(True for _name in chosen) or any(_NEW_FIELD.match(name) for name in data)


class ChoicesForm(forms.Form):
    """A form for one document: one choice of secret for each of its security schemes, perhaps a new one."""

    server = forms.CharField(
        label=_("server"),
        max_length=500,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("The address that the tools send requests to."),
    )
    prefix = forms.RegexField(  # type: ignore[assignment]
        r"^[A-Za-z0-9_.-]{0,32}\Z",
        label=_("prefix"),
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Added before every tool name, for example shop_."),
        error_messages={"invalid": _("Use up to 32 letters, digits, underscores, hyphens and dots.")},
    )
    toolset = forms.ModelChoiceField(
        Toolset.objects.all(),
        label=_("toolset"),
        required=False,
        widget=UnfoldAdminSelectWidget,
        help_text=_(
            "New tools join this toolset. If it is another one than at the last import, existing tools still in "
            "the earlier one join it, too."
        ),
    )
    outputs = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanWidget,
        label=_("Validate responses against the document's schemas"),
        help_text=_(
            "A result that does not match is an error. Switch this off for an API that deviates from its document."
        ),
    )

    def __init__(
        self, content: dict[str, Any], source: str, data: Any = None, *, title: str = "", may_create: bool = False
    ) -> None:
        """Make the form; `may_create` says whether secrets can be created with it, named after `title` by default."""
        super().__init__(data)
        known = servers.list_urls(content, source)
        self.fields["server"].initial = next(iter(known), "")
        if len(known) > 1:
            servers_text = gettext("The document lists these servers: %s.") % ", ".join(known[:10])
            self.fields["server"].help_text = f"{self.fields['server'].help_text} {servers_text}"
        names = list(Secret.objects.values_list("name", flat=True))
        known_secrets = [(name, name) for name in names]
        self.schemes: dict[str, str] = {}
        self.new_secrets: dict[str, NewSecretForm] = {}
        for number, (scheme, words) in enumerate(security.schemes(content).items()):
            field = f"secret_{number}"
            self.schemes[field] = scheme
            offered = may_create and number < MAX_NEW_SECRETS
            if offered:
                name = suggest_name(f"{title}_{scheme}", names)
                names.append(name)
                self.new_secrets[field] = NewSecretForm(data, prefix=f"new_{number}", initial={"name": name})
            new = [(CREATE, gettext("New secret…"))] if offered else []
            self.fields[field] = forms.ChoiceField(
                choices=[("", "---------"), *new, *known_secrets],
                required=False,
                label=gettext("secret for %s") % scheme,
                help_text=words,
                widget=UnfoldAdminSelectWidget,
            )

    def rows(self) -> Iterator[tuple[forms.BoundField, NewSecretForm | None]]:
        """Yield each field, and for a choice of secret the form of a new one if it can be created here."""
        for field in self:
            yield field, self.new_secrets.get(field.name)

    def is_valid(self) -> bool:
        """Return whether everything can be used, the secrets to create included."""
        valid = super().is_valid()
        wanted = self._wanted()
        usable = [form.is_valid() for form in wanted]  # every form, so that each shows its errors
        valid = valid and all(usable)
        if valid:
            for form in wanted:
                form.bind(self.cleaned_data["server"])
            names = [form.cleaned_data["name"] for form in wanted]
            for form in wanted:
                if names.count(form.cleaned_data["name"]) > 1:
                    form.add_error("name", gettext("Two new secrets have this name. Choose another name for one."))
            valid = not any(form.errors for form in wanted)
        if not valid:
            for form in wanted:
                form.ask_again()
        return valid

    def create_secrets(self) -> dict[str, Secret]:
        """Create the new secrets of a valid form; return them by the field that chose each.

        A secret whose name was taken in the meantime is missing, and its form has the error.
        """
        made = {field: form.create() for field, form in self.new_secrets.items() if form in self._wanted()}
        return {field: secret for field, secret in made.items() if secret is not None}

    def has_name_conflict(self) -> bool:
        """Return whether a secret could not be created because its name was taken in the meantime."""
        return any(form.errors for form in self._wanted())

    def _wanted(self) -> list[NewSecretForm]:
        return [form for field, form in self.new_secrets.items() if self.data.get(field) == CREATE]

    def clean_server(self) -> str:
        server = str(self.cleaned_data["server"]).rstrip("/")
        try:
            egress.parse_url(server)
        except egress.DeniedAddress as error:
            sentence = error.localized_message[:1].upper() + error.localized_message[1:]
            raise forms.ValidationError(gettext("%(text)s.") % {"text": sentence}) from None
        if any(character in server for character in "{}?#"):
            raise forms.ValidationError(_("Enter an address without braces, query or fragment."))
        return server

    def preset_choices(self, previous: dict[str, Any]) -> None:
        """Preset the choices of the last import."""
        self.fields["outputs"].initial = previous.get("outputs", True)
        if not previous:
            return
        self.fields["server"].initial = previous.get("server") or self.fields["server"].initial
        self.fields["prefix"].initial = previous.get("prefix", "")
        self.fields["toolset"].initial = Toolset.objects.filter(name=previous.get("toolset", "")).first()
        for field, name in self.schemes.items():
            self.fields[field].initial = previous.get("secrets", {}).get(name, "")

    def initial_choices(self) -> Choices:
        """Return the choices of a form that was not submitted yet."""
        initial = {name: field.initial for name, field in self.fields.items()}
        return self._choices(initial)

    def chosen(self) -> Choices:
        return self._choices(self.cleaned_data)

    def _choices(self, values: dict[str, Any]) -> Choices:
        return Choices(
            server=str(values.get("server") or ""),
            prefix=str(values.get("prefix") or ""),
            secrets={
                name: str(values[field])
                for field, name in self.schemes.items()
                if values.get(field) and values[field] != CREATE
            },
            outputs=bool(values.get("outputs")),
        )
