from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from toolhub.access import call_pages, views

app_name = "access"
urlpatterns = [
    path("", views.home, name="home"),
    path("sign-in/", views.SignIn.as_view(), name="login"),
    path("sign-out/", LogoutView.as_view(), name="logout"),
    path("language/", views.language, name="language"),
    path("account/", views.account, name="account"),
    path("password/", views.NewPassword.as_view(), name="password"),
    path("tokens/", views.tokens, name="tokens"),
    path("tokens/<int:pk>/rename/", views.rename, name="rename"),
    path("tokens/<int:pk>/rotate/", views.rotate, name="rotate"),
    path("tokens/<int:pk>/revoke/", views.revoke, name="revoke"),
    path("calls/", call_pages.calls, name="calls"),
    path("calls/<uuid:pk>/", call_pages.call, name="call"),
    path("calls/<uuid:pk>/file/<slug:what>/", call_pages.file, name="call-file"),
    path("calls/<uuid:pk>/part/<int:number>/", call_pages.part, name="call-part"),
    path("calls/<uuid:pk>/cancel/", call_pages.cancel, name="call-cancel"),
    path("connect/", views.connect, name="connect"),
    path("connect/<slug:key>/", views.connect, name="connect-client"),
]
