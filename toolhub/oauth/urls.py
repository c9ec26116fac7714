from __future__ import annotations

from django.urls import path

from toolhub.oauth import authorization, connected_apps, device, metadata, registration, token_endpoint

app_name = "oauth"
urlpatterns = [
    path(".well-known/oauth-protected-resource", metadata.protected_resource, name="protected-resource"),
    path(".well-known/oauth-protected-resource/mcp", metadata.protected_resource),
    path(".well-known/oauth-authorization-server", metadata.authorization_server, name="authorization-server"),
    path(".well-known/", metadata.unknown),
    path(".well-known/<path:rest>", metadata.unknown),
    path("oauth/authorize", authorization.authorize, name="authorize"),
    path("oauth/token", token_endpoint.token, name="token"),
    path("oauth/device", device.authorize, name="device-authorization"),
    path("device/", device.device, name="device"),
    path("oauth/revoke", token_endpoint.revoke, name="revoke"),
    path("oauth/register", registration.register, name="register"),
    path("apps/", connected_apps.apps, name="apps"),
    path("apps/<int:pk>/revoke/", connected_apps.revoke, name="disconnect"),
    path("apps/<int:pk>/reconnect/", connected_apps.reconnect, name="reconnect"),
]
