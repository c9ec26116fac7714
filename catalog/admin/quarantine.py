"""Quarantine in the admin: the review of one item, with its warnings and changes, and its state on other pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from audit import local_time, word_diff
from catalog import quarantine
from catalog.models import Tool, secret_flows
from catalog.models.base import CatalogueItem
from catalog.reviews import changes, queue, risks
from catalog.reviews.review_texts import LABELS, LEVELS, describe_risk, name_path
from catalog.runners import registry
from catalog.templatetags.catalog_definitions import compare_words
from toolhub.chinese import close_blanks
from toolhub.invisible import show


class QuarantineFilter(admin.SimpleListFilter):
    title = _("quarantine")
    parameter_name = "quarantine"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("needs review")), ("rejected", _("rejected")), ("no", _("not quarantined"))]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        match self.value():
            case "yes":
                return queryset.needing_review()
            case "rejected":
                return queryset.rejected_in_review()
            case "no":
                return queryset.filter(quarantined_since__isnull=True)
        return queryset


def _is_quarantined(item: CatalogueItem | None) -> bool:
    return item is not None and item.quarantined_since is not None


class QuarantineAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A ModelAdmin with a page that reviews a changed definition."""

    change_form_outer_before_template = "admin/catalog/quarantined.html"

    def get_urls(self) -> list[URLPattern]:
        urls: list[URLPattern] = super().get_urls()
        review = self.admin_site.admin_view(self.review)
        return [path("<int:pk>/review/", review, name=f"catalog_{self.opts.model_name}_review"), *urls]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the read-only fields, with the text about quarantine only where there is one."""
        fields = super().get_readonly_fields(request, obj)
        return fields if _is_quarantined(obj) else [name for name in fields if name != "quarantine"]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        found = super().get_fieldsets(request, obj)
        if _is_quarantined(obj):
            return found
        return [
            (title, {**options, "fields": tuple(name for name in options["fields"] if name != "quarantine")})
            for title, options in found
        ]

    @admin.display(description=_("quarantine"))
    def quarantine(self, row: CatalogueItem) -> str:
        if row.quarantined_since is None:
            return gettext("no")
        return format_html(
            '{} <a href="{}" class="underline">{}</a>', describe_state(row), self._review_url(row.pk), gettext("Review")
        )

    @display(  # type: ignore[untyped-decorator]
        description=_("status"),
        ordering="enabled",
        label={"on": "success", "off": "info", "review": "warning", "rejected": "danger"},
    )
    def status(self, row: CatalogueItem) -> tuple[str, Any]:
        """Return the state in a list: a quarantined item is hidden, however it is switched."""
        if row.quarantined_since is not None:
            return ("rejected", _("rejected")) if row.rejected else ("review", _("needs review"))
        return ("on", _("enabled")) if row.enabled else ("off", _("switched off"))

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> Any:
        """Add what stands above the form of a quarantined item."""
        item = options.get("obj")
        if item is not None and _is_quarantined(item):
            may_review = request.user.has_perm(quarantine.PERMISSION)
            context["quarantine"] = {
                "text": describe_state(item),
                "link": self._review_url(item.pk) if may_review else "",
            }
        return super().render_change_form(request, context, *args, **options)

    def _review_url(self, pk: int) -> str:
        return review_url(str(self.opts.model_name), pk)

    def review(self, request: HttpRequest, pk: int) -> HttpResponse:
        if not request.user.has_perm(quarantine.PERMISSION):
            raise PermissionDenied
        item = self.model._default_manager.filter(pk=pk).first()
        if item is None:
            raise Http404
        if request.method == "POST":
            return redirect(self._decide(request, item))
        if version := request.GET.get("download"):
            return _download(item, version)
        place = queue.find_place(item)
        title = gettext("Review %s") % show(str(item))
        context = {
            **self.admin_site.each_context(request),
            **present_review(item),
            "title": title,
            "content_title": title,
            "page": reverse(f"admin:catalog_{self.opts.model_name}_change", args=[pk]),
            "state": describe_state(item),
            "place": place,
            "previous": entry_url(place.before),
            "next": entry_url(place.after),
            "decision": quarantine.find_decision(item),
        }
        return TemplateResponse(request, "admin/catalog/review.html", context)

    def _decide(self, request: HttpRequest, item: CatalogueItem) -> str:
        """Do what the form says; return the address of the page that comes next."""
        by, reviewed = request.user.get_username(), request.POST.get("seen") or "nothing"
        here = self._review_url(item.pk)
        following = queue.find_place(item).after
        name = show(str(item))
        try:
            match request.POST.get("decision"):
                case "approve":
                    # `approve` takes exactly this definition or none, so that the warnings are about what it serves.
                    quarantine.require_unchanged(item, reviewed)
                    if request.POST.get("read") != "yes" and risks.is_dangerous(risks.find_risks(item)):
                        messages.error(request, gettext("Read the warnings first, and confirm it below them."))
                        return here
                    edited_by_hand = quarantine.approve(item, by, reviewed)
                    text = (
                        gettext("%s is approved and available again.") if item.enabled else gettext("%s is approved.")
                    )
                    messages.success(request, text % name)
                    if edited_by_hand:
                        names = ", ".join(str(LABELS[member]).lower() for member in edited_by_hand)
                        messages.warning(request, close_blanks(gettext("Kept the manual edits in: %s.") % names))
                case "reject":
                    quarantine.reject(item, by, reviewed)
                    messages.success(request, gettext("The change to %s is rejected. It stays quarantined.") % name)
                case "reopen":
                    if quarantine.reopen(item, by):
                        text = gettext("The rejected change of %s waits for review again.")
                    else:
                        text = gettext("The next comparison of %s with its source brings its change back.")
                    messages.success(request, text % name)
                    return here
                case "undo":
                    quarantine.undo(item, by)
                    messages.success(request, gettext("Undone: %s waits for review again.") % name)
                    return here
                case _:
                    return here
        except (quarantine.StaleReview, ValidationError, PermissionDenied) as error:
            messages.error(request, describe_refusal(error))
            return here
        return entry_url(following) or reverse("pages:review")


def review_url(kind: str, pk: int) -> str:
    """Return the address of the review of a tool, resource or prompt."""
    return reverse(f"admin:catalog_{kind}_review", args=[pk])


def entry_url(entry: queue.Entry | None) -> str:
    """Return the address of an entry's review; empty for none."""
    return review_url(entry.kind, entry.pk) if entry is not None else ""


def describe_state(item: CatalogueItem) -> str:
    """Return why a quarantined item is hidden, and since when; for any other item, that it is not quarantined."""
    if item.quarantined_since is None:
        return gettext("It is not quarantined.")
    if item.rejected:
        text = gettext("Quarantined since %(time)s: a reviewer rejected its change. Hidden from all users.")
    elif not item.proposed:
        text = gettext("Quarantined since %(time)s. Hidden from all users until it is compared with its source.")
    elif item.proposed == "null":
        text = gettext("Quarantined since %(time)s: its source no longer has it. Hidden from all users until reviewed.")
    else:
        text = gettext(
            "Quarantined since %(time)s: its definition changed at its source. Hidden from all users until reviewed."
        )
    return text % {"time": local_time.format_time_with_zone(item.quarantined_since, "minutes")}


def describe_refusal(error: Exception) -> str:
    """Return why a decision was not made, as a sentence."""
    if isinstance(error, quarantine.StaleReview):
        return str(error)
    if isinstance(error, ValidationError):
        if getattr(error, "code", "") == queue.DANGEROUS:  # an error about several fields has no code
            return gettext("It has dangerous changes. Open and review it alone.")
        return gettext("Cannot approve this: %s") % " ".join(error.messages)
    return gettext("You may not save where its settings send secrets. Ask someone who may use secrets.")


def present_review(item: CatalogueItem) -> dict[str, Any]:
    """Return the context of a review: warnings, the worst first, and the changes of each member in that order."""
    found = risks.find_risks(item)
    warnings = [
        ReviewWarning(risk.level, str(LEVELS.get(risk.level, "")), describe_risk(risk), risk.member) for risk in found
    ]
    worst = {risk.member: risk.level for risk in reversed(found)}
    members: dict[str, list[dict[str, Any]]] = {}
    for change in changes.find_changes(item):
        members.setdefault(change.member, []).append(
            {
                "place": name_path(change.path),
                "state": "new" if change.before is None else "gone" if change.after is None else "changed",
                "change": change,
            }
        )
    budget = word_diff.Budget()
    for shown in members.values():
        for one in shown:
            one["pieces"] = compare_words(one["change"], budget)
    ordered = sorted(members, key=lambda member: -worst.get(member, 0))
    proposed = quarantine.proposal(item) or {}
    return {
        "item": item,
        "waiting": quarantine.needs_review(item),
        "gone": item.proposed == "null",
        "seen": quarantine.fingerprint(item),
        "origin": quarantine.name_source(item),
        "warnings": warnings,
        "dangerous": risks.is_dangerous(found),
        "cards": [
            {"name": member, "title": LABELS[member], "level": worst.get(member, 0), "changes": members[member]}
            for member in ordered
        ],
        "edited": [(LABELS[name], text) for name, text in quarantine.edited_members(item)] if item.approved else [],
        "sent": secret_flows.describe(registry.flows(item.runner, proposed.get("settings")))
        if isinstance(item, Tool)
        else [],
    }


@dataclass(frozen=True, slots=True)
class ReviewWarning:
    """One warning of the page."""

    level: int
    label: str
    text: str
    member: str


def _download(item: CatalogueItem, version: str) -> HttpResponse:
    """Return the approved or the proposed definition as a JSON file."""
    stored = {"approved": item.approved, "proposed": item.proposed}.get(version)
    if not stored:
        raise Http404
    name = f"{item._meta.model_name}-{item.pk}-{version}.json"
    # Never shown by a browser: a definition of somebody else's server is data.
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(stored, content_type="application/json; charset=utf-8", headers=headers)
