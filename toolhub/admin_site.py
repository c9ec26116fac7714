"""The admin site: the theme's site, with suggestions in the words of each admin page, and cached texts of scripts."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.apps import AdminConfig
from django.contrib.admin.views.autocomplete import AutocompleteJsonView
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import conditional_page, require_safe
from unfold.sites import UnfoldAdminSite

from toolhub.ranking import rank_by_name


class Site(UnfoldAdminSite):  # type: ignore[misc]
    @method_decorator([never_cache, login_not_required, require_safe])
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Redirect to the sign-in page: one page checks passwords, for the admin too."""
        if request.user.is_authenticated:
            if not self.has_permission(request):
                raise PermissionDenied
            return redirect("admin:index")
        target = request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index")
        return redirect(f"{reverse('access:login')}?{urlencode({REDIRECT_FIELD_NAME: target})}")

    def autocomplete_view(self, request: HttpRequest) -> HttpResponseBase:
        return _AutocompleteView.as_view(admin_site=self)(request)

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:
        """Show and save one's own new password: the theme's page, with the throttled form."""
        # The forms need models, which are not loaded when the applications are configured.
        from toolhub.access.forms import AdminNewPasswordForm
        from toolhub.access.views import PasswordView

        request.current_app = self.name
        return PasswordView.as_view(
            form_class=AdminNewPasswordForm,
            success_url=reverse(f"{self.name}:password_change_done"),
            template_name=self.password_change_template or "registration/password_change_form.html",
            extra_context={**self.each_context(request), **(extra_context or {})},
        )(request)

    @method_decorator([cache_control(private=True, no_cache=True), conditional_page])
    def i18n_javascript(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Return the texts of scripts, Django's and ours (djangojs.po), in the language of the request.

        The browser keeps them and asks each time whether they changed: the language is no part of the address.
        """
        found: HttpResponse = super().i18n_javascript(request, extra_context)
        return found


class _AutocompleteView(AutocompleteJsonView):
    """An autocomplete view with the best matches first, and the words of the rows' ModelAdmin where it defines some."""

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset()
        name = str(getattr(self.model_admin, "rank_field", "") or next(iter(self.model_admin.search_fields), ""))
        columns = {field.name for field in found.model._meta.concrete_fields}
        return rank_by_name(found, name, self.term) if self.term and name in columns else found

    def serialize_result(self, obj: Any, to_field_name: str) -> dict[str, str]:
        found: dict[str, str] = super().serialize_result(obj, to_field_name)
        autocomplete_label = getattr(self.model_admin, "autocomplete_label", None)
        return {**found, "text": autocomplete_label(obj)} if autocomplete_label else found


class Config(AdminConfig):
    """Django's admin application, configured with the site of this module."""

    default_site = "toolhub.admin_site.Site"
