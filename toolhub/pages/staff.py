"""What the administrators' pages share: who may open them, and the theme around them."""

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
    """A page of the admin for staff who hold every one of these permissions.

    Somebody who is not signed in, or no staff, is sent to the admin's sign-in; staff without a permission get a 403.
    """

    def decorate(view: View) -> View:
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                if not request.user.has_perms(permissions):
                    raise PermissionDenied
                return view(request, *args, **kwargs)
            except PermissionDenied as denied:
                # Here, and not by Django, which would log it with a traceback as if something had failed.
                return permission_denied(request, denied)

        checked.__name__ = getattr(view, "__name__", "page")
        checked.__doc__ = view.__doc__
        return admin.site.admin_view(checked)  # type: ignore[arg-type, return-value, unused-ignore]

    return decorate


def page(request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
    """A page in the theme: the sidebar, the title, and what it shows."""
    return TemplateResponse(request, template, {**admin.site.each_context(request), "title": title, **context})
