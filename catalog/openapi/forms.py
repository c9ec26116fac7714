"""The two forms of an import: the location of the document, and the choices for all of its tools."""

from __future__ import annotations

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


class ChoicesForm(forms.Form):
    """A form for one document: one choice of secret for each of its security schemes."""

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
        help_text=_("Toolset for new tools."),
    )
    outputs = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanWidget,
        label=_("Validate responses against the document's schemas"),
        help_text=_(
            "A result that does not match is an error. Switch this off for an API that deviates from its document."
        ),
    )

    def __init__(self, content: dict[str, Any], source: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = servers.list_urls(content, source)
        self.fields["server"].initial = next(iter(known), "")
        if len(known) > 1:
            names = gettext("The document lists these servers: %s.") % ", ".join(known[:10])
            self.fields["server"].help_text = f"{self.fields['server'].help_text} {names}"
        secrets = [("", "---------"), *((name, name) for name in Secret.objects.values_list("name", flat=True))]
        self.schemes: dict[str, str] = {}
        for number, (name, words) in enumerate(security.schemes(content).items()):
            self.schemes[f"secret_{number}"] = name
            self.fields[f"secret_{number}"] = forms.ChoiceField(
                choices=secrets,
                required=False,
                label=gettext("secret for %s") % name,
                help_text=words,
                widget=UnfoldAdminSelectWidget,
            )

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
            secrets={name: str(values[field]) for field, name in self.schemes.items() if values.get(field)},
            outputs=bool(values.get("outputs")),
        )
