"""Addresses of the admin pages about second factors."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from toolhub.identity.mfa import administration

app_name = "mfa-admin"
urlpatterns = [
    path(
        "auth/user/<int:pk>/second-factors/",
        admin.site.admin_view(administration.remove),
        name="remove",
    ),
]
