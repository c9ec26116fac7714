from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", include("toolhub.pages.admin_urls")),
    path("admin/", include("toolhub.identity.mfa.admin_urls")),
    path("admin/", admin.site.urls),
    path("", include("catalog.urls")),
    path("", include("toolhub.access.urls")),
    path("", include("toolhub.oauth.urls")),
    path("", include("toolhub.identity.urls")),
    path("", include("toolhub.people.urls")),
    path("", include("toolhub.scim.urls")),
    path("", include("toolhub.identity.mfa.urls")),
]
