"""Composition of applications that must not import each other: one registers a question, another answers it."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from audit.hooks import Catalogue, Related
from audit.models import Call
from catalog.admin import inlines
from catalog.approvals import approvers
from catalog.calls import history, origins
from catalog.errors import Cancellation
from catalog.models import PersonalSecret
from catalog.models.approval_rules import approves_more, find_approving_groups
from catalog.models.value_lists import find_groups_with_values, has_more_values
from catalog.policy import grant_targets, messages, snapshot, visibility
from toolhub import case_records
from toolhub.access.hooks import Hooks
from toolhub.access.models import AccessToken
from toolhub.identity import assertions, ways
from toolhub.identity import groups as identity_groups
from toolhub.identity.admin import IdentityInline
from toolhub.identity.mfa import second_step
from toolhub.oauth.credentials import ConnectedApps
from toolhub.oauth.models import ConnectedApp
from toolhub.parts import parts


def _test_case_url(method: str, call_id: UUID) -> str:
    return f"{reverse('admin:catalog_tooltest_add')}?call={call_id}" if method == "tools/call" else ""


_CREDENTIALS: dict[str, type[AccessToken | ConnectedApp]] = {
    "token": AccessToken,
    "stdio": AccessToken,
    "app": ConnectedApp,
}
"""Prefix of a credential's id -> its rows."""


def _find_related(call: Call, viewer: Any) -> list[Related]:
    return [*origins.find_related(call, viewer), *_find_user(call, viewer), *_find_credential(call, viewer)]


def _find_user(call: Call, viewer: Any) -> list[Related]:
    if call.user_id is None or not viewer.has_perm("auth.view_user"):
        return []
    row = User.objects.filter(pk=call.user_id).first()
    if row is None:
        return [Related(_("User"), call.username, "", [_("It no longer exists.")])]
    return [Related(_("User"), row.get_username(), reverse("admin:auth_user_change", args=[row.pk]))]


def _find_credential(call: Call, viewer: Any) -> list[Related]:
    kind, _colon, number = call.credential_id.partition(":")
    model = _CREDENTIALS.get(kind)
    if model is None or not re.fullmatch(r"[0-9]{1,18}", number):
        return []
    label, name = model._meta.app_label, model._meta.model_name
    if not viewer.has_perm(f"{label}.view_{name}"):
        return []
    title = capfirst(str(model._meta.verbose_name))
    row = model._default_manager.filter(pk=int(number)).first()
    if row is None:
        return [Related(title, call.credential, "", [_("It no longer exists.")])]
    return [Related(title, str(row), reverse(f"admin:{label}_{name}_change", args=[row.pk]))]


def connect() -> None:
    """Register the functions of each application in the applications that call them."""
    parts.put(
        Catalogue(
            definition_at=history.definition_at,
            translate_reason=messages.translate_reason,
            find_related=_find_related,
            name_row=messages.name_row,
            test_case_url=_test_case_url,
            case_records=case_records.list_records,
        )
    )
    parts.put(
        Hooks(
            cancel_call=_cancel_call,
            has_any_access=_has_any_access,
            has_personal_secrets=_has_personal_secrets,
            reaches_more=_reaches_more,
            groups_with_access=_find_groups_with_access,
            group_losses=approvers.describe_losses,
            approves_more=approves_more,
            approving_groups=find_approving_groups,
            managed_memberships=identity_groups.find_managed,
            toolsets_for=_toolsets_for,
            has_connected_app=_has_connected_app,
            revoke_apps=_revoke_apps,
            second_step=second_step.begin,
            credential_kinds=(ConnectedApps(),),
            has_identity=ways.has_identity,
            sign_in_ways=ways.list_ways,
            sign_in_options=ways.list_options,
            accepts_assertions=assertions.are_accepted,
            verify_assertion=assertions.verify,
            filter_accepted=assertions.filter_accepted,
            user_inlines=(*inlines.USER_INLINES, IdentityInline),
            group_inlines=inlines.GROUP_INLINES,
        )
    )


def _reaches_more(user_id: int, other_id: int) -> bool:
    return grant_targets.reaches_more(user_id, other_id) or has_more_values(user_id, other_id)


def _find_groups_with_access(group_ids: frozenset[int]) -> frozenset[int]:
    return grant_targets.find_groups_with_access(group_ids) | find_groups_with_values(group_ids)


def _cancel_call(call_id: UUID, username: str) -> None:
    # Only a serving process loads the server role: commands have no calls to cancel.
    from toolhub.server import requests

    requests.cancel_from_thread(call_id, Cancellation("cancelled.in_browser", name=username))


def _has_any_access(user_id: int) -> bool:
    snapshot.latest()
    mine = visibility.for_credential(visibility.page_credential(user_id))
    return bool(mine.tools or mine.resources or mine.templates or mine.prompts)


def _has_personal_secrets(user_id: int) -> bool:
    return PersonalSecret.objects.filter(user_id=user_id).exists()


def _has_connected_app(user_id: int) -> bool:
    return ConnectedApp.objects.usable().filter(user_id=user_id).exists()


def _revoke_apps(user_id: int) -> None:
    for app in ConnectedApp.objects.filter(user_id=user_id, revoked=None):
        app.revoke()


def _toolsets_for(user_id: int) -> frozenset[int]:
    nobody_else = visibility.page_credential(user_id)
    try:
        mine = visibility.for_credential(nobody_else)
    except snapshot.NotLoaded:
        snapshot.refresh()
        mine = visibility.for_credential(nobody_else)
    return frozenset(toolset_id for tool, _rule in mine.tools.values() for toolset_id in tool.toolset_ids)
