"""Accounts, groups and access tokens in the admin.

A token is shown once, when it is created; its text is not stored, so nothing can show it again.
"""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import PermissionDenied
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop, ngettext
from django.views.decorators.debug import sensitive_variables
from unfold.decorators import action, display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from audit.actions.cascade import BoundedDeletion
from audit.admin_base import ModelAdmin
from audit.admin_filters import related_filter
from toolhub.access import hooks, i18n, privileges, rotation
from toolhub.access.connect import CLIENTS_BY_KEY
from toolhub.access.forms import RotateForm
from toolhub.access.models import DEFAULT_DAYS, MAX_DAYS, AccessToken

DJANGO_TEXTS = (
    gettext_noop("groups"),
    gettext_noop("The groups this user belongs to. A user will get all permissions granted to each of their groups."),
)
"""Texts of Django that the translation catalogues override: groups have the same name on every page."""

admin.site.unregister(User)
admin.site.unregister(Group)


class PermissionsField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Any) -> str:
        return i18n.permission_label(obj)


class PermissionLabelsAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A ModelAdmin whose form has a select box for permissions."""

    def formfield_for_manytomany(self, db_field: Any, request: Any = None, **kwargs: Any) -> Any:
        if db_field.related_model is Permission:
            kwargs["form_class"] = PermissionsField
        return super().formfield_for_manytomany(db_field, request, **kwargs)


class ActingForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form that knows who fills it in: `get_form` of its admin page makes a subclass with the signed-in user."""

    acting: User

    @classmethod
    def made_for(cls, request: HttpRequest) -> type[ActingForm]:
        return type(cls.__name__, (cls,), {"acting": cast(User, request.user)})

    def find_changed_keys(self, name: str) -> tuple[set[int], set[int]]:
        """Return the primary keys that the form adds to a many-to-many field, and those that it removes."""
        chosen = {row.pk for row in self.cleaned_data[name]}
        stored = set(getattr(self.instance, name).values_list("pk", flat=True)) if self.instance.pk else set()
        return chosen - stored, stored - chosen


class PermissionGivingForm(ActingForm):
    """A form of an account or a group: nobody gives a permission that they do not hold."""

    def check_permissions(self, name: str) -> Any:
        added, _removed = self.find_changed_keys(name)
        if unheld := privileges.find_unheld(self.acting, added):
            raise forms.ValidationError(privileges.permissions_refusal(unheld), code="unheld")
        return self.cleaned_data[name]


class UserForm(PermissionGivingForm, UserChangeForm):  # type: ignore[misc]
    def clean_user_permissions(self) -> Any:
        return self.check_permissions("user_permissions")

    def clean_groups(self) -> Any:
        added, removed = self.find_changed_keys("groups")
        if reserved := privileges.find_reserved_groups(self.acting, added | removed):
            raise forms.ValidationError(privileges.groups_refusal(reserved), code="reserved")
        return self.cleaned_data["groups"]


class GroupForm(PermissionGivingForm):
    def clean_permissions(self) -> Any:
        return self.check_permissions("permissions")


@admin.register(User)
class UserAdmin(PermissionLabelsAdmin, BoundedDeletion, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    form = UserForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "full_name", "is_active", "is_staff", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser", related_filter("groups"))
    list_per_page = 25
    autocomplete_fields = ("groups", "user_permissions")
    filter_horizontal = ()
    list_before_template = "admin/people/invitation/links.html"
    change_form_outer_before_template = "admin/access/user_links.html"

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        return hooks.installed().user_inlines

    def get_inline_instances(self, request: HttpRequest, obj: Any = None) -> Any:
        # A new account needs a name and a password first. Its grants are edited on the page that follows.
        return super().get_inline_instances(request, obj) if obj is not None else []

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and not (
            obj is not None and privileges.is_above(cast(User, request.user), obj)
        )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and not (
            obj is not None and privileges.is_above(cast(User, request.user), obj)
        )

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        rows = list(objs)
        listed, counts, needed, protected = super().get_deleted_objects(rows, request)
        above = privileges.find_users_above(cast(User, request.user))
        if above.filter(pk__in=[row.pk for row in rows]).exists():
            needed = {*needed, str(self.opts.verbose_name)}
        return listed, counts, needed, protected

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is not None:
            kwargs["form"] = UserForm.made_for(request)
        return super().get_form(request, obj, change=change, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fixed = super().get_readonly_fields(request, obj)
        if obj is None or cast(User, request.user).is_superuser:
            return fixed
        if privileges.may_take_over(cast(User, request.user), obj):
            return (*fixed, *privileges.FLAGS)
        return (*fixed, *privileges.FLAGS, "username", "email")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or privileges.may_take_over(cast(User, request.user), obj):
            return fieldsets
        # Without the link to the form for a new password.
        return [
            (title, {**options, "fields": [name for name in options["fields"] if name != "password"]})
            for title, options in fieldsets
        ]

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any) -> Any:
        user = options.get("obj")
        if user is not None and super().has_change_permission(request, user):
            actor = cast(User, request.user)
            if privileges.is_above(actor, user):
                self.message_user(request, privileges.account_refusal(user), messages.INFO)
            elif not privileges.may_take_over(actor, user):
                self.message_user(request, privileges.take_over_refusal(user), messages.INFO)
        return super().render_change_form(request, context, *args, **options)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:
        user = self.get_object(request, unquote(id))
        if user is not None and not privileges.may_take_over(cast(User, request.user), user):
            raise PermissionDenied(privileges.take_over_refusal(user))
        response = super().user_change_password(request, id, form_url)
        if user is not None and request.method == "POST" and response.status_code == 302 and user.pk != request.user.pk:
            text = _("%(user)s chooses a new password at the next sign-in. Their access tokens are then revoked.")
            self.message_user(request, text % {"user": user.get_username()}, messages.INFO)
        return response

    @admin.display(description=_("name"))
    def full_name(self, user: User) -> str:
        return user.get_full_name() or "-"


@admin.register(Group)
class GroupAdmin(PermissionLabelsAdmin, BoundedDeletion, DjangoGroupAdmin, ModelAdmin):
    list_per_page = 25
    autocomplete_fields = ("permissions",)
    filter_horizontal = ()
    form = GroupForm
    change_form_outer_before_template = "admin/access/group_links.html"

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and not (
            obj is not None and privileges.is_group_above(cast(User, request.user), obj)
        )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and not (
            obj is not None and privileges.find_reserved_groups(cast(User, request.user), [obj.pk])
        )

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        rows = list(objs)
        listed, counts, needed, protected = super().get_deleted_objects(rows, request)
        if privileges.find_reserved_groups(cast(User, request.user), [row.pk for row in rows]):
            needed = {*needed, str(self.opts.verbose_name)}
        loss = hooks.installed().group_losses([row.pk for row in rows], request.user)
        if loss and "post" not in request.POST:  # the page that asks: it names only what goes away
            messages.warning(request, loss)
        return listed, counts, needed, protected

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs["form"] = GroupForm.made_for(request)
        return super().get_form(request, obj, change, **kwargs)

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        return hooks.installed().group_inlines


@admin.register(Permission)
class PermissionAdmin(ModelAdmin):
    """The admin page behind the search of the permission boxes.

    Django's two lists side by side are wider than the window.
    """

    search_fields = ("name", "codename", "content_type__app_label")
    list_select_related = ("content_type",)
    list_display = ("autocomplete_label",)
    readonly_fields = ("autocomplete_label",)
    fields = ("autocomplete_label", "codename")

    @admin.display(description=_("permission"))
    def autocomplete_label(self, row: Permission) -> str:
        return i18n.permission_label(row)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        user = cast(User, request.user)
        return any(user.has_perm(f"auth.{name}") for name in ("change_user", "change_group", "add_user", "add_group"))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class TokenForm(ActingForm):
    class Meta:
        model = AccessToken
        fields = ("name", "expires", "restricted", "toolsets")

    def clean(self) -> dict[str, Any]:
        # Selected toolsets mean a restriction: a forgotten switch must not create a token that reaches everything.
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("toolsets"):
            cleaned["restricted"] = True
        self.check_width(cleaned)
        return cleaned

    def check_width(self, cleaned: dict[str, Any]) -> None:
        """Add an error where the form lets somebody else's token reach more, without the permission for that."""
        if privileges.may_act_as(self.acting, self.instance.user_id):
            return
        stored = AccessToken.objects.get(pk=self.instance.pk)
        if cleaned.get("expires", stored.expires) > stored.expires:
            self.add_error("expires", privileges.token_refusal())
        if stored.restricted and not cleaned.get("restricted"):
            self.add_error("restricted", privileges.token_refusal())
        if cleaned.get("toolsets") and self.find_changed_keys("toolsets")[0]:
            self.add_error("toolsets", privileges.token_refusal())


class NewTokenForm(TokenForm):
    days = forms.IntegerField(
        label=_("Valid for (days)"),
        initial=DEFAULT_DAYS,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_DAYS)],
        widget=UnfoldAdminIntegerFieldWidget,
    )

    class Meta:
        model = AccessToken
        fields = ("user", "name", "restricted", "toolsets")

    def check_width(self, cleaned: dict[str, Any]) -> None:
        user = cleaned.get("user")
        if user is not None and not privileges.may_act_as(self.acting, user.pk):
            self.add_error("user", privileges.token_refusal())


class AdminRotateForm(RotateForm):
    """The form that rotates a token, with the widgets of the admin."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["keep"].widget = UnfoldAdminSelectWidget(choices=rotation.KEEP_CHOICES)


class UsableFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("usable", _("active")),
            ("replaced", _("replaced, still active")),
            ("expired", _("expired")),
            ("revoked", _("revoked")),
            ("inactive", _("user inactive")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() in ("usable", "replaced"):
            usable = AccessToken.objects.usable() & queryset
            return usable.filter(successor__isnull=self.value() == "usable")
        if self.value() == "expired":
            return queryset.filter(revoked=None, expires__lte=timezone.now())
        if self.value() == "revoked":
            return queryset.exclude(revoked=None)
        if self.value() == "inactive":
            return queryset.filter(revoked=None, expires__gt=timezone.now(), user__is_active=False)
        return queryset


HISTORY_FIELDS = (
    "created",
    "created_for",
    "last_used",
    "last_address",
    "revoked",
    "replaced_token",
    "replaced_by",
)


@admin.register(AccessToken)
class AccessTokenAdmin(ModelAdmin):
    list_display = ("name", "user", "visible_prefix", "state", "created", "expires", "last_used", "last_address")
    list_filter = (UsableFilter,)
    list_select_related = ("user", "successor")
    list_per_page = 25
    search_fields = ("name", "user__username")
    search_help_text = _("Token name or owner")
    autocomplete_fields = ("user", "toolsets")
    actions = ("revoke_chosen",)
    actions_submit_line = ("revoke_this",)
    actions_detail = ("rotate",)
    add_fieldsets = (
        (None, {"fields": ("user", "name", "days")}),
        (_("Access"), {"fields": ("restricted", "toolsets")}),
    )
    fieldsets = (
        (None, {"fields": ("user", "name", "visible_prefix", "state_now", "expires", "made_by_owner")}),
        (_("Access"), {"fields": ("restricted", "toolsets")}),
        (_("History"), {"fields": HISTORY_FIELDS}),
    )
    readonly_fields = ("visible_prefix", "state_now", "made_by_owner", *HISTORY_FIELDS)

    @display(description=_("starts with"))  # type: ignore[untyped-decorator]
    def visible_prefix(self, token: AccessToken) -> str:
        return f"{token.prefix}…"

    @display(  # type: ignore[untyped-decorator]
        description=_("state"),
        label={
            "usable": "success",
            "replaced": "info",
            "expired": "warning",
            "revoked": "danger",
            "inactive": "warning",
        },
    )
    def state(self, token: AccessToken) -> tuple[str, Any]:
        if token.revoked is not None:
            return "revoked", _("revoked")
        if token.is_expired:
            return "expired", _("expired")
        if not token.user.is_active:
            return "inactive", _("user inactive")
        return ("replaced", _("replaced, still active")) if token.is_replaced else ("usable", _("active"))

    @admin.display(description=_("state"))
    def state_now(self, token: AccessToken) -> Any:
        return self.state(token)[1]

    @admin.display(description=_("created for"))
    def created_for(self, token: AccessToken) -> Any:
        client = CLIENTS_BY_KEY.get(token.client_key)
        return client.title if client is not None else "-"

    @admin.display(description=_("replaces"))
    def replaced_token(self, token: AccessToken) -> str:
        return _link(token.replaces) if token.replaces is not None else "-"

    @admin.display(description=_("replaced by"))
    def replaced_by(self, token: AccessToken) -> str:
        return _link(token.successor) if token.is_replaced else "-"

    def changeform_view(
        self, request: HttpRequest, object_id: Any = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        # Every save button leads to the page that shows the new token.
        hidden = {"show_save_and_add_another": False, "show_save_and_continue": object_id is not None}
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), **hidden})

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fieldsets if obj else self.add_fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*self.readonly_fields, "user") if obj else ()

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        # Who may create tokens for themselves alone finds themselves chosen.
        own = {} if privileges.may_act_as(cast(User, request.user), None) else {"user": request.user.pk}
        return {**own, **super().get_changeform_initial_data(request)}

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs["form"] = (TokenForm if obj is not None else NewTokenForm).made_for(request)
        return super().get_form(request, obj, change, **kwargs)

    def save_model(self, request: HttpRequest, obj: AccessToken, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        # Restricted from the start; the form adds the toolsets afterwards.
        chosen = () if form.cleaned_data["restricted"] else None
        own = obj.user_id == request.user.pk
        made, text = AccessToken.objects.issue(
            obj.user,
            obj.name,
            days=form.cleaned_data["days"],
            toolsets=chosen,
            made_by_owner=own,
            maker_id=request.user.pk,
        )
        # The form continues with the created row: it adds the toolsets to it and logs the addition.
        for field in made._meta.concrete_fields:
            setattr(obj, field.attname, getattr(made, field.attname))
        obj._state.adding, obj._state.db = False, made._state.db
        request.new_token = text  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: AccessToken, post_url_continue: Any = None) -> HttpResponse:
        return self._show_new(request, obj, getattr(request, "new_token", ""))

    @method_decorator(sensitive_variables("text", "context"))
    def _show_new(self, request: HttpRequest, token: AccessToken, text: str, **more: Any) -> HttpResponse:
        """Return the only page that shows the token.

        It is rendered directly, never cached, and no redirect carries the token.
        """
        context = {
            **self.admin_site.each_context(request),
            "title": _("New token"),
            "token": token,
            "text": text,
            "opts": self.model._meta,
            **more,
        }
        response = TemplateResponse(request, "admin/access/accesstoken/made.html", context)
        add_never_cache_headers(response)
        return response.render()

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> Any:
        """Return the buttons above the form: none that rotates for whoever may not, and for a token that cannot be."""
        token = self.get_object(request, unquote(str(object_id)))
        offered = (
            token is not None
            and privileges.may_act_as(cast(User, request.user), token.user_id)
            and rotation.find_refusal(token) is None
        )
        return super().get_actions_detail(request, object_id) if offered else []  # type: ignore[misc]

    def has_rotate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        """Return whether the user may create tokens and change them; whose, the page of the rotation asks."""
        return self.has_add_permission(request) and self.has_change_permission(request)

    @action(description=_("Rotate"), permissions=["rotate"])  # type: ignore[untyped-decorator]
    @method_decorator(sensitive_variables("done"))
    def rotate(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask how long the token works on, and answer a POST with the only page that shows its successor."""
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        token = self.get_object(request, unquote(object_id))
        if token is None:
            raise Http404
        if not privileges.may_act_as(cast(User, request.user), token.user_id):
            raise PermissionDenied(privileges.token_refusal())
        own = token.user_id == request.user.pk
        form = AdminRotateForm(request.POST if request.method == "POST" else None)
        try:
            if (refused := rotation.find_refusal(token)) is not None:
                raise refused
            if form.is_valid():
                done = rotation.rotate(
                    AccessToken.objects.all(),
                    token.pk,
                    keep_hours=form.cleaned_data["keep"],
                    made_by_owner=own,
                    maker_id=request.user.pk,
                )
                return self._show_new(request, done.token, done.text, rotation=done)
        except rotation.RotationRefused as refusal:
            self.message_user(request, rotation.explain(refusal), messages.ERROR)
            return redirect("admin:access_accesstoken_change", token.pk)
        title = _("Rotate %(token)s") % {"token": token}
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "content_title": title,
            "opts": self.model._meta,
            "token": token,
            "own": own,
            "form": form,
        }
        return TemplateResponse(request, "admin/access/accesstoken/rotate.html", context)

    @admin.action(description=_("Revoke"), permissions=["change"])
    def revoke_chosen(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> None:
        with transaction.atomic():  # all or none; one by one, as every open stream of a token must be notified
            number = sum(token.revoke() for token in queryset.order_by("pk"))
        text = ngettext("%d token was revoked.", "%d tokens were revoked.", number) % number
        self.message_user(request, text, messages.SUCCESS)

    @action(description=_("Revoke"), permissions=["change"])  # type: ignore[untyped-decorator]
    def revoke_this(self, request: HttpRequest, obj: AccessToken) -> None:
        if obj.revoke():
            self.message_user(request, _("The token was revoked. Its clients are now rejected."))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny deletion: the audit log refers to revoked tokens. They are deleted only together with their owner."""
        match = request.resolver_match
        return bool(match and (match.url_name or "").startswith("auth_user_")) and super().has_delete_permission(
            request, obj
        )


def _link(token: AccessToken) -> str:
    return format_html(
        '<a class="text-primary-600 dark:text-primary-500" href="{}">{}</a>',
        reverse("admin:access_accesstoken_change", args=[token.pk]),
        token,
    )
