"""Common parts of the administrators' pages: the permission check, and the theme around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.views.defaults import permission_denied

View = Callable[..., HttpResponseBase]


def staff_page(*permissions: str) -> Callable[[View], View]:
    """Make a view an admin page for staff who have every one of these permissions.

    Visitors who are not signed in, or no staff, are redirected to the admin's sign-in; staff without a permission get a
    403.
    """

    def decorate(view: View) -> View:
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                if not request.user.has_perms(permissions):
                    raise PermissionDenied
                return view(request, *args, **kwargs)
            except PermissionDenied as denied:
                # Answered here, because Django would log it with a traceback as if it were a failure.
                return permission_denied(request, denied)

        checked.__name__ = getattr(view, "__name__", "page")
        checked.__doc__ = view.__doc__
        return admin.site.admin_view(checked)  # type: ignore[arg-type, return-value, unused-ignore]

    return decorate


def page(request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
    """Render a page in the theme: the sidebar, the title and the context."""
    return TemplateResponse(request, template, {**admin.site.each_context(request), "title": title, **context})
