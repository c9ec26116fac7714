"""Secrets in the admin: values can be written and never read. Its uses are shown, and block its deletion."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextareaWidget

from audit.actions.cascade import BoundedDeletion
from audit.admin_base import ModelAdmin
from catalog.admin.forms import CatalogueForm
from catalog.encryption import KeysError
from catalog.models import Secret
from catalog.models.fields import NamesFormField
from catalog.secrets import resolve
from catalog.secrets.resolve import check_value

MAX_USES = 200
"""Maximum number of uses on the page of a secret."""


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


class SecretForm(CatalogueForm):
    new_value = forms.CharField(
        required=False,
        max_length=65_536,
        widget=WriteOnlyWidget(),
        validators=[check_value],
        label=_("New value"),
        help_text=_("The value is never shown again. Leave this empty to keep the current value."),
    )

    class Meta:
        model = Secret
        fields = ("name", "kind", "description", "hosts")
        field_classes = {"hosts": NamesFormField}

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean() or {}
        kind = cleaned.get("kind") or self.instance.kind
        if kind == Secret.Kind.PERSONAL and cleaned.get("new_value"):
            self.add_error("new_value", _("A personal secret has no value here. Each user enters their own."))
        return cleaned

    def _post_clean(self) -> None:
        # Entered before the row is checked: only a new value may go to further hosts.
        value, name = self.cleaned_data.get("new_value"), self.cleaned_data.get("name") or self.instance.name
        if value and name and not self.errors:
            self.instance.name = name
            try:
                self.instance.enter(value)
            except KeysError as error:
                self.add_error(
                    "new_value",
                    gettext("The value cannot be encrypted: %s. Ask the operator to fix this setting.") % error,
                )
        super()._post_clean()  # type: ignore[misc]


def join_limited(words: list[str], shown: int = 50) -> str:
    """Return the first `shown` words as text, and the number of further ones."""
    more = len(words) - shown
    return ", ".join(words[:shown]) + (f", {gettext('and %(more)s more') % {'more': more}}" if more > 0 else "")


@admin.register(Secret)
class SecretAdmin(BoundedDeletion, ModelAdmin):
    form = SecretForm
    list_filter = ("kind",)
    search_fields = ("name", "description")
    search_help_text = _("Name or description")
    list_per_page = 25
    warn_unsaved_form = True
    readonly_fields = ("state", "bound_to", "used_by", "entered_by")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request).annotate(entries=Count("entered"))
        return found

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        # Settings of tools refer to the name, and the entered values belong to name and kind.
        return self.readonly_fields if obj is None else ("name", "kind", *self.readonly_fields)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if obj is None:
            return ("name", "kind", "description", "hosts", "new_value")
        changes = self.has_change_permission(request, obj)
        fields = ("name", "kind", "description", "hosts" if changes else "bound_to")
        if obj.kind == Secret.Kind.PERSONAL:
            return (*fields, "entered_by", "used_by")
        return (*fields, *(("new_value",) if changes else ()), "state", "used_by")

    @method_decorator(sensitive_post_parameters("new_value"))
    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with transaction.atomic():
            response: HttpResponse = super().changeform_view(request, *args, **kwargs)
        return response

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return the objects to delete; secrets in use are protected, and the page names the uses to change first."""
        deleted, counts, needed, protected = super().get_deleted_objects(objs, request)
        uses = resolve.uses()
        protected_uses = [
            gettext("%(what)s uses the secret %(name)s") % {"what": use.what, "name": secret.name}
            for secret in objs
            for use in uses.get(secret.name, [])
        ]
        return deleted, counts, needed, [*protected, *protected_uses]

    @display(description=_("kind"), ordering="kind", label={"shared": "info", "personal": "success"})  # type: ignore[untyped-decorator]
    def kind_badge(self, row: Secret) -> tuple[str, str]:
        # The choices of the form explain each kind; a list has room for one word.
        return row.kind, gettext("shared") if row.kind == Secret.Kind.SHARED else gettext("personal")

    @admin.display(description=_("value"))
    def state(self, row: Any) -> str:
        if row.kind == Secret.Kind.PERSONAL:
            return str(ngettext("entered by %d user", "entered by %d users", row.entries) % row.entries)
        return gettext("set") if row.value else gettext("missing")

    def get_list_display(self, request: HttpRequest) -> tuple[Any, ...]:
        uses = resolve.uses()  # once for all rows

        @admin.display(description=_("used by"))
        def used_by(row: Secret) -> str:
            return join_limited([use.what for use in uses.get(row.name, [])], 3) or gettext("nothing")

        return ("name", "kind_badge", "state", used_by, "changed_at")

    @admin.display(description=_("sent by"))
    def used_by(self, row: Secret) -> str:
        """Return every use with its destinations, and whether the hosts of the secret block it."""
        lines = []
        for use in resolve.uses().get(row.name, [])[:MAX_USES]:
            for destination in use.destinations:
                values = {"what": use.what, "destination": destination.label}
                if row.allows(destination):
                    lines.append(gettext("%(what)s, to %(destination)s") % values)
                else:
                    lines.append(gettext("%(what)s, to %(destination)s (blocked by the hosts)") % values)
        return format_html_join(SafeString("<br>"), "{}", ((line,) for line in lines)) or gettext("nothing")

    @admin.display(description=_("hosts"))
    def bound_to(self, row: Secret) -> str:
        return ", ".join(row.hosts) or gettext("not bound")

    @admin.display(description=_("entered by"))
    def entered_by(self, row: Secret) -> str:
        names = list(row.entered.values_list("user__username", flat=True).order_by("user__username"))
        return join_limited(names) or gettext("no one")
