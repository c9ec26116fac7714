from __future__ import annotations

from django.urls import path

from catalog import views, views_secrets

app_name = "catalog"
urlpatterns = [
    path("tools/", views.tools, name="tools"),
    path("tools/<str:name>/", views.tool, name="tool"),
    path("secrets/", views_secrets.listing, name="secrets"),
    path("secrets/<slug:name>/", views_secrets.enter, name="secret-enter"),
    path("secrets/<slug:name>/remove/", views_secrets.remove, name="secret-remove"),
]
