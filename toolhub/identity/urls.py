from __future__ import annotations

from django.urls import path

from toolhub.identity import views

app_name = "identity"
urlpatterns = [
    path("sign-in/with/<slug:slug>/", views.start, name="start"),
    path("sign-in/with/<slug:slug>/callback/", views.callback, name="callback"),
    path("account/link/<slug:slug>/", views.link, name="link"),
    path("account/unlink/<int:pk>/", views.unlink, name="unlink"),
]
