from __future__ import annotations

from django.urls import path

from catalog.views import secrets, tools

app_name = "catalog"
urlpatterns = [
    path("tools/", tools.tools, name="tools"),
    path("tools/<str:name>/", tools.tool, name="tool"),
    path("secrets/", secrets.listing, name="secrets"),
    path("secrets/<slug:name>/", secrets.enter, name="secret-enter"),
    path("secrets/<slug:name>/destinations/", secrets.decide, name="secret-destinations"),
    path("secrets/<slug:name>/remove/", secrets.remove, name="secret-remove"),
]
