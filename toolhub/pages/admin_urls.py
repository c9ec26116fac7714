"""Addresses of the admin pages that combine several applications; `staff.staff_page` guards each view."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from toolhub.pages import (
    backups,
    examples,
    jobs,
    next_steps,
    review,
    rule_examples,
    sessions,
    settings_table,
    trials,
    view_as,
)
from toolhub.pages.access import bulk, give_form, group, imports, matrix, remedy_changes, revocation, tool, toolset
from toolhub.pages.health import views
from toolhub.pages.inbox import reported_calls, request_page, request_queue
from toolhub.pages.search import views as search_views
from toolhub.pages.tool_tests import views as test_views
from toolhub.pages.try_it import views as try_it_views

app_name = "pages"
urlpatterns: list[URLPattern | URLResolver] = [
    path("catalog/tool/<int:pk>/try/", try_it_views.try_tool, name="try"),
    path("catalog/tool/<int:pk>/try/<uuid:run>/", try_it_views.try_state, name="try-state"),
    path("catalog/tool/<int:pk>/try/<uuid:run>/cancel/", try_it_views.try_cancel, name="try-cancel"),
    path("catalog/tool/<int:pk>/try/<uuid:run>/answer/", try_it_views.try_answer, name="try-answer"),
    path("catalog/tool/<int:pk>/try/<uuid:run>/part/<int:number>/", try_it_views.try_part, name="try-part"),
    path("catalog/tool/<int:pk>/tests/", test_views.tool_tests, name="tool-tests"),
    path("access/people/", tool.suggest_users, name="people"),
    path("access/user/<int:pk>/", view_as.redirect_to_view_as, name="access-user"),
    path("access/tool/<int:pk>/", tool.tool_access, name="access-tool"),
    path("access/toolset/<int:pk>/", toolset.toolset_access, name="access-toolset"),
    path("access/toolset/<int:pk>/pick/", toolset.pick_tools, name="toolset-pick"),
    path("access/group/<int:pk>/", group.group_access, name="access-group"),
    path("access/group/<int:pk>/pick/", group.pick_members, name="group-pick"),
    path("access/group/<int:pk>/members/", group.change_members, name="group-members"),
    path("access/give/", give_form.give_access, name="give"),
    path("access/give/pick/", give_form.pick, name="give-pick"),
    path("access/grant/<int:pk>/revoke/", revocation.revoke, name="revoke"),
    path("access/matrix/", matrix.matrix, name="matrix"),
    path("access/matrix/<int:toolset>/<int:group>/", matrix.cell, name="cell"),
    path("access/matrix/<int:toolset>/<int:group>/set/", matrix.set_cell, name="cell-set"),
    path("access/change/", bulk.bulk, name="bulk"),
    path("access/remedy/", remedy_changes.remedy, name="remedy"),
    path("access/pick/", bulk.pick, name="pick"),
    path("imports/", imports.imports, name="imports"),
    path("imports/<int:pk>/", imports.import_batch, name="import"),
    path("imports/<int:pk>/undo/", imports.undo_import, name="import-undo"),
    path("review/", review.review, name="review"),
    path("requests/", request_queue.requests, name="requests"),
    path("requests/decide/", request_queue.decide, name="requests-decide"),
    path("requests/<int:pk>/", request_page.request_page, name="request"),
    path("requests/<int:pk>/decide/", request_page.decide, name="request-decide"),
    path("requests/calls/", reported_calls.reports, name="reports"),
    path("requests/calls/<int:pk>/", reported_calls.report, name="report"),
    path("requests/calls/<int:pk>/close/", reported_calls.close, name="report-close"),
    path("trials/", trials.trials, name="trials"),
    path("rule-examples/", rule_examples.rule_examples, name="rule-examples"),
    path("view-as/", view_as.view_as, name="view-as"),
    path("examples/grant/", examples.grant_examples, name="grant-examples"),
    path("checklist/hide/", next_steps.hide, name="checklist-hide"),
    path("checklist/show/", next_steps.show, name="checklist-show"),
    path("backups/", backups.backups, name="backups"),
    path("backups/confirm/", backups.confirm, name="backups-confirm"),
    path("backups/withdraw/", backups.withdraw, name="backups-withdraw"),
    path("health/", views.health, name="health"),
    path("jobs/", jobs.jobs, name="jobs"),
    path("search/", search_views.search, name="search"),
    path("settings/", settings_table.list_settings, name="settings"),
    path("sessions/", sessions.sessions, name="sessions"),
    path("sessions/disconnect/", sessions.disconnect, name="sessions-disconnect"),
    path("sessions/close/", sessions.close, name="sessions-close"),
    path("sessions/revoke/", sessions.revoke, name="sessions-revoke"),
]
