from __future__ import annotations

from django.urls import path

from toolhub.people import acceptance, password_reset

app_name = "people"
urlpatterns = [
    path("password/forgotten/", password_reset.forgotten, name="forgotten"),
    path("password/new/", password_reset.choose, name="new-password"),
    path("password/new/<slug:key>/<slug:token>", password_reset.open_link, name="reset-link"),
    path("invitation/", acceptance.accept, name="accept"),
    path("invitation/<slug:token>", acceptance.open_link, name="invitation"),
]
