"""Invitations in the admin: invite one person or many, see what became of it, send again, revoke, import a list.

The link of an invitation is shown once, to the person who made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, validate_email
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST
from unfold.decorators import display
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextareaWidget

from audit.admin_base import ModelAdmin
from toolhub.people import import_pages, invitations, outbox
from toolhub.people.invitations import MAY_INVITE, Made, Person
from toolhub.people.models import (
    ACCEPTED,
    DEFAULT_DAYS,
    EXPIRED,
    MAX_DAYS,
    ORPHANED,
    PENDING,
    REVOKED,
    Invitation,
)

MAX_ADDRESSES = 200
"""Maximum addresses of one form; a longer list is imported."""
STATES = {
    PENDING: _("pending"),
    ACCEPTED: _("accepted"),
    EXPIRED: _("expired"),
    REVOKED: _("revoked"),
    ORPHANED: _("inviter inactive"),
}


class InvitationForm(forms.ModelForm):  # type: ignore[type-arg]
    """The form that makes an invitation for each address, or one without an address."""

    acting: User

    addresses = forms.CharField(
        label=_("Email addresses"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4}),
        help_text=_("One in a line; each gets an invitation of its own. Without one, hand over the link yourself."),
    )
    days = forms.IntegerField(
        label=_("Valid for (days)"),
        initial=DEFAULT_DAYS,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_DAYS)],
        widget=UnfoldAdminIntegerFieldWidget,
    )

    class Meta:
        model = Invitation
        fields = ("username", "first_name", "last_name", "groups", "note")

    @classmethod
    def made_for(cls, request: HttpRequest) -> type[InvitationForm]:
        return type(cls.__name__, (cls,), {"acting": cast(User, request.user)})

    def clean_addresses(self) -> list[str]:
        lines = (line.strip() for line in self.cleaned_data["addresses"].splitlines())
        addresses = list({line.lower(): line for line in lines if line}.values())
        if len(addresses) > MAX_ADDRESSES:
            raise ValidationError(_("Enter at most %d addresses, or import a list.") % MAX_ADDRESSES)
        problems = [f"{address[:100]}: {text}" for address, text in _find_problems(addresses)]
        if problems:
            raise ValidationError(problems, code="addresses")
        return addresses

    def clean_groups(self) -> Any:
        groups = self.cleaned_data["groups"]
        if refusal := invitations.find_refusal(self.acting, list(groups)):
            raise ValidationError(refusal, code="reserved")
        return groups

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if len(cleaned.get("addresses") or ()) > 1:
            for name in ("username", "first_name", "last_name"):
                if cleaned.get(name):
                    self.add_error(name, _("Leave this empty for several addresses, or import a list."))
        return cleaned

    def list_people(self) -> list[Person]:
        """Return whom to invite."""
        given = {name: self.cleaned_data[name] for name in ("username", "first_name", "last_name")}
        groups = tuple(self.cleaned_data["groups"])
        return [Person(email=email, groups=groups, **given) for email in self.cleaned_data["addresses"] or [""]]


def _find_problems(addresses: Sequence[str]) -> Iterable[tuple[str, str]]:
    taken = invitations.find_taken(addresses)
    for address in addresses:
        try:
            validate_email(address)
        except ValidationError as error:
            yield address, error.messages[0]
        else:
            if address.lower() in taken:
                yield address, taken[address.lower()]


class StateFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(STATES.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        now = timezone.now()
        open_ones = queryset.filter(accepted=None, revoked=None)
        match self.value():
            case "pending":
                return open_ones.filter(expires__gt=now, inviter__is_active=True)
            case "orphaned":
                return open_ones.filter(expires__gt=now).exclude(inviter__is_active=True)
            case "expired":
                return open_ones.filter(expires__lte=now)
            case "revoked":
                return queryset.filter(accepted=None).exclude(revoked=None)
            case "accepted":
                return queryset.exclude(accepted=None)
        return queryset


@admin.register(Invitation)
class InvitationAdmin(ModelAdmin):
    list_display = ("shown_name", "state", "inviter_name", "created", "expires", "accepted_name", "accepted", "mail")
    list_filter = (StateFilter,)
    list_select_related = ("inviter",)
    list_per_page = 25
    list_before_template = "admin/people/invitation/links.html"
    change_form_outer_before_template = "admin/people/invitation/buttons.html"
    search_fields = ("email", "username", "first_name", "last_name", "accepted_name", "inviter_name")
    search_help_text = _("Address, name, or who invited or accepted")
    actions = ("revoke_chosen",)
    autocomplete_fields = ("groups",)
    add_fieldsets = (
        (None, {"fields": ("addresses", "groups", "days", "note")}),
        (_("Person"), {"fields": ("username", "first_name", "last_name")}),
    )
    fieldsets = (
        (None, {"fields": ("email", "state_now", "username", "first_name", "last_name", "chosen_groups", "note")}),
        (
            _("History"),
            {"fields": ("inviter_name", "created", "expires", "mail", "accepted", "accepted_name", "revoked")},
        ),
    )

    @admin.display(description=_("for"), ordering="email")
    def shown_name(self, invitation: Invitation) -> str:
        return str(invitation)

    @display(  # type: ignore[untyped-decorator]
        description=_("state"),
        label={PENDING: "info", ACCEPTED: "success", EXPIRED: "warning", REVOKED: "danger", ORPHANED: "warning"},
    )
    def state(self, invitation: Invitation) -> tuple[str, Any]:
        return invitation.state, STATES[invitation.state]

    @admin.display(description=_("state"))
    def state_now(self, invitation: Invitation) -> Any:
        return STATES[invitation.state]

    @admin.display(description=_("groups"))
    def chosen_groups(self, invitation: Invitation) -> str:
        return ", ".join(invitation.groups.order_by("name").values_list("name", flat=True)) or "-"

    @admin.display(description=_("mail"))
    def mail(self, invitation: Invitation) -> Any:
        if invitation.mailed is not None:
            return _("sent")
        if invitation.mail_problem:
            return _("failed (%s)") % invitation.mail_problem
        waits = invitation.email and outbox.is_configured() and invitation.state == PENDING
        return _("waiting") if waits else "-"

    # --- permissions: who may add users invites, and `view_invitation` lets others see the list ---------------------

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(MAY_INVITE))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny deletion: the list says who let whom in."""
        return False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) or self.has_add_permission(request)

    # --- inviting ---------------------------------------------------------------------------------------------------

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if self.has_add_permission(request) and (obstacle := invitations.find_obstacle()):
            return self._render(request, "admin/people/invitation/obstacle.html", _("Invite people"), obstacle=obstacle)
        hidden = {"show_save_and_add_another": False, "show_save_and_continue": False}
        context = {"title": _("Invite people"), **hidden, **(extra_context or {})}
        response: HttpResponse = super().add_view(request, form_url, context)
        return response

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fieldsets if obj else self.add_fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for _title, options in self.fieldsets for name in options["fields"]] if obj else ()

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None:
            kwargs["form"] = InvitationForm.made_for(request)
        return super().get_form(request, obj, change, **kwargs)

    def save_model(self, request: HttpRequest, obj: Invitation, form: Any, change: bool) -> None:
        inviter, note, days = cast(User, request.user), form.cleaned_data["note"], form.cleaned_data["days"]
        made = [invitations.invite(inviter, person, note=note, days=days) for person in form.list_people()]
        # The form continues with the first row: it sets the same groups once more.
        for field in obj._meta.concrete_fields:
            setattr(obj, field.attname, getattr(made[0].invitation, field.attname))
        obj._state.adding, obj._state.db = False, made[0].invitation._state.db
        request.invitations_made = made  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: Invitation, post_url_continue: Any = None) -> HttpResponse:
        return self._show_links(request, getattr(request, "invitations_made", []))

    def _show_links(self, request: HttpRequest, made: list[Made]) -> HttpResponse:
        """Return the only page that shows the links; no redirect carries them, and nothing caches it."""
        return self._render(request, "admin/people/invitation/made.html", _("Invitations"), made=made)

    def _render(self, request: HttpRequest, template: str, title: Any, **context: Any) -> HttpResponse:
        response = TemplateResponse(
            request, template, {**self.admin_site.each_context(request), "title": title, "opts": self.opts, **context}
        )
        add_never_cache_headers(response)
        return response.render()

    # --- afterwards -------------------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        mine = [
            path("import/", self.admin_site.admin_view(self.import_view), name="people_invitation_import"),
            path("<int:pk>/renew/", self.admin_site.admin_view(self.renew_view), name="people_invitation_renew"),
            path("<int:pk>/revoke/", self.admin_site.admin_view(self.revoke_view), name="people_invitation_revoke"),
        ]
        urls: list[URLPattern] = super().get_urls()
        return [*mine, *urls]

    def import_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        if obstacle := invitations.find_obstacle():
            return self._render(request, "admin/people/invitation/obstacle.html", _("Import people"), obstacle=obstacle)
        template, context = import_pages.respond(request)
        return self._render(request, template, _("Import people"), **context)

    def renew_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        def renew(request: HttpRequest) -> HttpResponse:
            invitation = self._find(request, pk)
            try:
                made = invitations.renew(invitation, cast(User, request.user))
            except invitations.Refused as refused:
                messages.error(request, str(refused))
                return redirect("admin:people_invitation_change", pk)
            return self._show_links(request, [made])

        return require_POST(renew)(request)

    def revoke_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        def revoke(request: HttpRequest) -> HttpResponse:
            if invitations.revoke(self._find(request, pk)):
                messages.success(request, _("The invitation was revoked. Its link no longer works."))
            return redirect("admin:people_invitation_change", pk)

        return require_POST(revoke)(request)

    def _find(self, request: HttpRequest, pk: int) -> Invitation:
        if not (self.has_add_permission(request) and self.has_view_permission(request)):
            raise PermissionDenied
        return get_object_or_404(Invitation, pk=pk)

    @admin.action(description=_("Revoke"), permissions=["add"])
    def revoke_chosen(self, request: HttpRequest, queryset: QuerySet[Invitation]) -> None:
        with transaction.atomic():  # all or none
            number = sum(invitations.revoke(invitation) for invitation in queryset.order_by("pk"))
        text = ngettext("%d invitation was revoked.", "%d invitations were revoked.", number) % number
        self.message_user(request, text, messages.SUCCESS)
