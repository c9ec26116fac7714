from __future__ import annotations

from django.urls import path

from toolhub.scim import views

app_name = "scim"
urlpatterns = [
    path("scim/v2/Users", views.users),
    path("scim/v2/Users/<str:id>", views.user),
    path("scim/v2/Groups", views.groups),
    path("scim/v2/Groups/<str:id>", views.group),
    path("scim/v2/ServiceProviderConfig", views.config),
    path("scim/v2/ResourceTypes", views.resource_types),
    path("scim/v2/ResourceTypes/<str:id>", views.resource_type),
    path("scim/v2/Schemas", views.schema_documents),
    path("scim/v2/Schemas/<str:id>", views.schema_document),
    path("scim/", views.nothing),
    path("scim/<path:rest>", views.nothing),
]
