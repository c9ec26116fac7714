"""Value lists and flags in the admin: what grants and approval rules refer to by name. Those that use one keep it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.admin import StackedInline
from unfold.forms import PaginationInlineFormSet

from audit.actions import actor
from catalog.admin.forms import CatalogueForm
from catalog.admin.history import HistoryAdmin
from catalog.models import ApprovalRule, Flag, ValueList, ValueListPart
from catalog.models.fields import JSONFormField, reject
from catalog.models.value_lists import CONTROL, MAX_VALUE_CHARACTERS, Uses
from catalog.policy import messages as policy_messages
from toolhub.chinese import close_blanks
from toolhub.invisible import show

MAX_NAMED_GRANTS = 10
"""Maximum number of grants that a row of a list names."""
MAX_QUOTED_CHARACTERS = 100


class ValuesFormField(JSONFormField):
    """A form field for a list of texts, one on each line; blanks around them and empty lines do not count."""

    def __init__(self, **kwargs: Any) -> None:
        # Django sends the values along twice when their default is a function.
        super().__init__(**{**kwargs, "show_hidden_initial": False})

    def to_python(self, value: Any) -> Any:
        if not isinstance(value, str):
            return [] if value is None else value
        found: dict[str, int] = {}
        for number, line in enumerate(value.splitlines(), 1):
            text = line.strip()
            if not text:
                continue
            if CONTROL.search(text):
                reject(_("Line %(number)s has a control character, such as a tab. Remove it."), number=number)
            if (size := len(text)) > MAX_VALUE_CHARACTERS:
                long = _("Line %(number)s has %(size)s characters. The maximum is %(most)s. Shorten it.")
                reject(long, number=number, size=f"{size:,}", most=MAX_VALUE_CHARACTERS)
            if text in found:
                twice = _("Line %(number)s repeats line %(first)s: “%(value)s”. Remove one.")
                reject(twice, number=number, first=found[text], value=show(text[:MAX_QUOTED_CHARACTERS]))
            found[text] = number
        return list(found)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else super().prepare_value(value)


def name_subject(row: ValueListPart) -> str:
    """Return whose values these are, in the language of the page."""
    by = "user" if row.user_id is not None else "group" if row.group_id is not None else "everyone"
    return policy_messages.subject(by, str(row.user or row.group or ""))


class ValueListPartForm(CatalogueForm):
    class Meta:
        model = ValueListPart
        fields = ("user", "group", "everyone", "entries")
        field_classes = {"entries": ValuesFormField}
        help_texts = {"entries": _("One value on each line.")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The theme asks the row for it, but rows do not know languages.
        vars(self.instance)["get_inline_title"] = lambda: name_subject(self.instance)


class PartFormSet(PaginationInlineFormSet):  # type: ignore[misc]
    """The parts of one list. Django compares a new one with stored ones, but not with another new one."""

    def clean(self) -> None:
        super().clean()
        seen: set[tuple[Any, Any, Any]] = set()
        for form in self.forms:
            cleaned = getattr(form, "cleaned_data", None)
            if not cleaned or cleaned.get("DELETE"):
                continue
            subject = (cleaned.get("user"), cleaned.get("group"), cleaned.get("everyone"))
            if not any(subject):
                continue
            if subject in seen:
                twice = _("The list has two entries for the same user or group, or for everyone. Join them.")
                raise ValidationError(twice, code="twice")
            seen.add(subject)


class PartInline(StackedInline):  # type: ignore[misc]
    """The values of a list: for everyone, for the members of a group, or for one user."""

    model = ValueListPart
    form = ValueListPartForm
    formset = PartFormSet
    verbose_name = _("entry")
    verbose_name_plural = _("entries")
    template_before = "admin/catalog/inline_errors.html"
    extra = 0
    per_page = 5  # each may have thousands of values
    autocomplete_fields = ("user", "group")
    readonly_fields = ("listed",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        values = "entries" if self.has_change_permission(request, obj) else "listed"
        return ("everyone", "user", "group", values)

    def get_extra(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> int:
        return 1 if obj is None else 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request).select_related("user", "group", "value_list")
        return found

    @admin.display(description=_("values"))
    def listed(self, row: ValueListPart) -> str:
        return format_html_join(SafeString("<br>"), "{}", ((show(value),) for value in row.entries)) or "-"


def describe_uses(users: Iterable[int]) -> str:
    """Return the grants that use a row, with links; only their number for people who may not view grants."""
    numbers = list(users)
    if not numbers:
        return gettext("no grant")
    user = actor.current_user()
    if user is None or not user.has_perm("catalog.view_grant"):
        return ngettext("%(number)s grant", "%(number)s grants", len(numbers)) % {"number": f"{len(numbers):,}"}
    shown = numbers[:MAX_NAMED_GRANTS]
    links = format_html_join(
        SafeString(", "),
        '<a class="underline" href="{}">{}</a>',
        ((reverse("admin:catalog_grant_change", args=[pk]), pk) for pk in shown),
    )
    if (more := len(numbers) - len(shown)) > 0:
        rest = close_blanks(gettext("and %(more)s more") % {"more": f"{more:,}"})
        return format_html("{} {}", links, rest)
    return links


def describe_rules(users: Iterable[int]) -> str:
    """Return the approval rules that use a row, with links; only their number for people who may not view rules."""
    numbers = list(users)
    user = actor.current_user()
    if not numbers or user is None or not user.has_perm("catalog.view_approvalrule"):
        text = ngettext("%(number)s approval rule", "%(number)s approval rules", len(numbers))
        return text % {"number": f"{len(numbers):,}"}
    found = ApprovalRule.everything.filter(pk__in=numbers[:MAX_NAMED_GRANTS]).values_list("pk", "name")
    links = format_html_join(
        SafeString(", "),
        '<a class="underline" href="{}">{}</a>',
        ((reverse("admin:catalog_approvalrule_change", args=[pk]), show(name)) for pk, name in found),
    )
    if (more := len(numbers) - len(found)) > 0:
        rest = close_blanks(gettext("and %(more)s more") % {"more": f"{more:,}"})
        return format_html("{} {}", links, rest)
    return links


class NamedForGrantsAdmin(HistoryAdmin):
    """The common admin page of what grants refer to by name."""

    search_fields = ("name", "description")
    search_help_text = _("Name or description")
    ordering = ("name",)
    warn_unsaved_form = True
    readonly_fields: ClassVar[tuple[str, ...]] = ("used_by",)
    listed: ClassVar[tuple[str, ...]]
    """The columns of the list before the grants."""

    def get_list_display(self, request: HttpRequest) -> tuple[Any, ...]:
        uses: Mapping[str, Uses] = self.model.find_uses()  # once for all rows

        @admin.display(description=_("used by grants"))
        def used_by(row: Any) -> str:
            return describe_uses(uses.get(row.name, Uses()).grants)

        @admin.display(description=_("used by approval rules"))
        def used_by_rules(row: Any) -> str:
            return describe_rules(uses.get(row.name, Uses()).rules)

        return (*self.listed, used_by, *([used_by_rules] if self.model.RULE_COLUMN else []))

    @admin.display(description=_("used by grants"))
    def used_by(self, row: Any) -> str:
        return describe_uses(type(row).find_uses().get(row.name, Uses()).grants) if row.pk is not None else "-"

    @admin.display(description=_("used by approval rules"))
    def used_by_rules(self, row: Any) -> str:
        return describe_rules(type(row).find_uses().get(row.name, Uses()).rules) if row.pk is not None else "-"

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return the objects to delete; those in use are protected, and the page names what to change first."""
        deleted, counts, needed, protected = super().get_deleted_objects(objs, request)
        uses = self.model.find_uses()
        in_use = [row.in_use(row.name, uses[row.name]) for row in objs if row.name in uses]
        return deleted, counts, needed, [*protected, *in_use]


@admin.register(ValueList)
class ValueListAdmin(NamedForGrantsAdmin):
    form = CatalogueForm
    inlines = (PartInline,)
    listed = ("name", "description", "part_count")
    readonly_fields = ("used_by", "used_by_rules")
    fieldsets = ((None, {"fields": ("name", "description", "used_by", "used_by_rules")}),)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request).annotate(part_count=Count("parts"))
        return found

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return the objects to delete; values of people need the permission to delete values."""
        deleted, counts, needed, protected = super().get_deleted_objects(objs, request)
        parts = ValueListPart.objects.filter(value_list__in=[row.pk for row in objs])
        if not request.user.has_perm("catalog.delete_valuelistpart") and parts.exists():
            needed = {*needed, str(ValueListPart._meta.verbose_name)}
        return deleted, counts, needed, protected

    @admin.display(description=_("users and groups with values"), ordering="part_count")
    def part_count(self, row: Any) -> str:
        return f"{row.part_count:,}"


@admin.register(Flag)
class FlagAdmin(NamedForGrantsAdmin):
    form = CatalogueForm
    listed = ("name", "share", "description")
    readonly_fields = ("in_force", "used_by")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        overridden = ("in_force",) if obj is not None and obj.name in settings.FLAGS else ()
        return ((None, {"fields": ("name", "description", "percentage", *overridden, "used_by")}),)

    @admin.display(description=_("percentage"), ordering="percentage")
    def share(self, row: Flag) -> str:
        if row.name not in settings.FLAGS:
            return f"{row.percentage}%"
        return gettext("%(percentage)s%% by TOOLHUB_FLAGS") % {"percentage": settings.FLAGS[row.name]}

    @admin.display(description=_("in force"))
    def in_force(self, row: Flag) -> str:
        return gettext(
            "%(percentage)s%%: TOOLHUB_FLAGS overrides the percentage above. To use that one, remove the flag from "
            "TOOLHUB_FLAGS and restart."
        ) % {"percentage": settings.FLAGS[row.name]}
