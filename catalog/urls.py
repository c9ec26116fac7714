from __future__ import annotations

from django.urls import path

from catalog.accounts import clients
from catalog.views import access_requests, accounts, approvals, lasting_approvals, secrets, tools

app_name = "catalog"
urlpatterns = [
    path("tools/", tools.tools, name="tools"),
    path("tools/<str:name>/", tools.tool, name="tool"),
    path("requests/", access_requests.listing, name="requests"),
    path("requests/toolset/<int:pk>/", access_requests.toolset, name="request"),
    path("requests/<int:pk>/withdraw/", access_requests.withdraw, name="request-withdraw"),
    path("approvals/", approvals.listing, name="approvals"),
    path("approvals/count/", approvals.count, name="approvals-count"),
    path("approvals/temporary/<int:pk>/revoke/", approvals.revoke, name="temporary-revoke"),
    path("approvals/<uuid:pk>/", approvals.detail, name="approval"),
    path("approvals/<uuid:pk>/approve/", approvals.approve, name="approval-approve"),
    path("approvals/<uuid:pk>/deny/", approvals.deny, name="approval-deny"),
    path("approvals/<uuid:pk>/withdraw/", approvals.withdraw, name="approval-withdraw"),
    path("approvals/<uuid:pk>/lasting/", lasting_approvals.make, name="approval-lasting"),
    path("approvals/<uuid:pk>/lasting/end/", lasting_approvals.end, name="approval-lasting-end"),
    path("calls/<uuid:pk>/report/", access_requests.report, name="report-call"),
    path("secrets/", secrets.listing, name="secrets"),
    path("secrets/<slug:name>/", secrets.enter, name="secret-enter"),
    path("secrets/<slug:name>/destinations/", secrets.decide, name="secret-destinations"),
    path("secrets/<slug:name>/remove/", secrets.remove, name="secret-remove"),
    path(clients.DOCUMENT_PATH[1:], accounts.document, name="account-document"),
    path(clients.CALLBACK_PATH[1:], accounts.callback, name="account-callback"),
    path("accounts/<slug:name>/connect/", accounts.connect, name="account-connect"),
    path("accounts/<slug:name>/<str:mark>/", accounts.link, name="account-link"),
]
