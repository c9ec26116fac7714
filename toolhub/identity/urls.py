from __future__ import annotations

from django.urls import path

from toolhub.identity import saml_views, views

app_name = "identity"
urlpatterns = [
    path("sign-in/with/<slug:slug>/", views.start, name="start"),
    path("sign-in/with/<slug:slug>/callback/", views.callback, name="callback"),
    path("sign-in/with/<slug:slug>/saml/acs/", saml_views.acs, name="saml_acs"),
    path("sign-in/with/<slug:slug>/saml/finish/", saml_views.finish, name="saml_finish"),
    path("sign-in/with/<slug:slug>/saml/metadata/", saml_views.metadata, name="saml_metadata"),
    path("account/link/<slug:slug>/", views.link, name="link"),
    path("account/unlink/<int:pk>/", views.unlink, name="unlink"),
]
