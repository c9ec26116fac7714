"""Addresses of the admin pages that combine several applications; `staff.staff_page` guards each view."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from toolhub.pages import backups, examples, jobs, next_steps, review, sessions, settings_table, view_as
from toolhub.pages.access import bulk, matrix, remedy_changes, tool
from toolhub.pages.health import views
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
    path("access/matrix/", matrix.matrix, name="matrix"),
    path("access/matrix/<int:toolset>/<int:group>/", matrix.cell, name="cell"),
    path("access/matrix/<int:toolset>/<int:group>/set/", matrix.set_cell, name="cell-set"),
    path("access/change/", bulk.bulk, name="bulk"),
    path("access/remedy/", remedy_changes.remedy, name="remedy"),
    path("access/pick/", bulk.pick, name="pick"),
    path("review/", review.review, name="review"),
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
