"""One click on a reason: the change of a grant, a group or an item that removes it.

A form names a person, an item and a change. Whether the change still applies, and whether this viewer may make it, is
decided again from the database, while the rows that it concerns are locked.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from audit import local_time
from audit.admin_filters import is_key
from catalog.models import Grant, Upstream
from catalog.policy import messages as policy_messages
from catalog.policy import snapshot
from catalog.policy.obstacles import NOT_MEMBER, Explainer
from catalog.policy.rules import Requester
from toolhub.pages.access import remedies
from toolhub.pages.access.remedies import Advice, Advisor, Asked, Remedy
from toolhub.pages.staff import staff_page

MAX_ADDRESS_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class Done:
    """What was changed: a sentence, and the address where it is undone; "" if the viewer may not see that page."""

    text: str
    address: str = ""
    words: str = ""


@staff_page("auth.view_user", "catalog.view_tool", "catalog.view_grant")
@require_POST
def remedy(request: HttpRequest) -> HttpResponse:
    """Make the change of one button on "View as" or on the access page of a tool, and return to that page."""
    data = request.POST
    kind, item, user = data.get("kind", ""), data.get("item", ""), data.get("user", "")
    if kind in remedies.MODELS and not request.user.has_perm(f"catalog.view_{kind}"):
        raise PermissionDenied
    if kind in remedies.MODELS and is_key(item) and is_key(user):
        carry_out(request, int(user), kind, int(item), data.get("remedy", ""))
    else:
        _report_stale(request)
    back = QueryDict(data.get("back", "")[:MAX_ADDRESS_CHARACTERS]).urlencode()
    if data.get("page") == "access-tool" and is_key(item):
        return redirect(f"{reverse('pages:access-tool', args=[int(item)])}?{back}")
    return redirect(f"{reverse('pages:view-as')}?{back}")


def carry_out(request: HttpRequest, user_id: int, kind: str, item_id: int, value: str) -> bool:
    """Make the change that a button stands for, tell the viewer by a message, and return whether it was made.

    Raises PermissionDenied when the viewer lacks a permission for it.
    """
    change = value.partition(":")[0]
    if change not in remedies.PERMISSIONS:
        _report_stale(request)
        return False
    if not _advisor(request).may(change, kind):
        raise PermissionDenied
    try:
        with transaction.atomic():
            done = _change(request, user_id, kind, item_id, value)
    except ValidationError as error:
        messages.error(request, _("Nothing was changed: %(reason)s") % {"reason": " ".join(error.messages)})
        return False
    if done is None:
        _report_stale(request)
        return False
    text = done.text
    if done.address:
        text = format_html('{} <a class="underline" href="{}">{}</a>', text, done.address, done.words)
    messages.success(request, text)
    left = explain(request, user_id, kind, item_id)
    if left is not None and left.asked.explanation.obstacles:
        details = {"item": left.asked.item.name, "user": left.asked.username, "reason": left.text}
        messages.warning(request, _("%(item)s is still hidden from %(user)s. %(reason)s") % details)
    return True


def explain(request: HttpRequest, user_id: int, kind: str, item_id: int) -> Advice | None:
    """Return why this person does not see this item here and now; None when one of them does not exist."""
    facts = remedies.load_facts(kind, [item_id]).get(item_id)
    name = User.objects.filter(pk=user_id).values_list("username", flat=True).first()
    if facts is None or name is None:
        return None
    advisor = _advisor(request)
    explainer = Explainer(snapshot.latest(), advisor.now, advisor.environment)
    explanation = explainer.explain(Requester(user_id), facts.target)
    return advisor.advise([Asked(user_id, name, facts, explanation)])[0]


def _advisor(request: HttpRequest) -> Advisor:
    return Advisor(request, time.time(), settings.ENVIRONMENT)


def _change(request: HttpRequest, user_id: int, kind: str, item_id: int, value: str) -> Done | None:
    """Make the change; None when it is not offered any more. In a transaction."""
    model = remedies.MODELS[kind]
    # One at a time for each item, as with bulk changes: the second of two clicks finds what the first did.
    item = model._default_manager.select_for_update().filter(pk=item_id).first()
    wanted = value.partition(":")[2]
    grant = Grant.objects.select_for_update().filter(pk=int(wanted)).first() if is_key(wanted) else None
    advice = explain(request, user_id, kind, item_id)
    offered = advice.find(value) if advice is not None else None
    if item is None or advice is None or offered is None:
        return None
    match offered.change:
        case remedies.GIVE:
            return _give(request, advice, item)
        case remedies.SWITCH_ON:
            return _switch_on(item, _history(f"catalog_{kind}", item.pk), _("View history"))
        case remedies.SWITCH_ON_SERVER:
            return _switch_on_server(advice.asked.item.upstream)
        case remedies.JOIN:
            return _join(advice)
    return _change_grant(offered, grant)


def _give(request: HttpRequest, advice: Advice, item: Any) -> Done:
    user = User.objects.get(pk=advice.asked.user_id)
    grant = Grant(**{advice.asked.item.target.kind: item}, user=user, note="")
    grant.full_clean()
    grant.save()
    text = _("Access given. %(grant)s.") % {"grant": policy_messages.name_row(grant)}
    if not request.user.has_perm("catalog.view_grant"):
        return Done(text)
    return Done(text, reverse("admin:catalog_grant_change", args=[grant.pk]), _("View grant"))


def _switch_on(item: Any, address: str, words: str) -> Done:
    item.enabled = True
    item.full_clean()
    item.save()
    return Done(_("%(item)s is switched on.") % {"item": item}, address, words)


def _switch_on_server(name: str) -> Done | None:
    # Another item of the same server may have switched it on meanwhile.
    server = Upstream.objects.select_for_update().filter(name=name, enabled=False).first()
    if server is None:
        return None
    return _switch_on(server, reverse("admin:catalog_upstream_change", args=[server.pk]), _("View upstream server"))


def _join(advice: Advice) -> Done:
    (key,) = (reason.params["id"] for reason in advice.asked.explanation.obstacles if reason.code == NOT_MEMBER)
    user = User.objects.select_for_update().get(pk=advice.asked.user_id)
    group = Group.objects.get(pk=key)
    user.groups.add(group)
    details = {"user": user.get_username(), "group": group.name}
    address = reverse("admin:auth_user_change", args=[user.pk])
    return Done(_("%(user)s is now in the group %(group)s.") % details, address, _("User account"))


def _change_grant(offered: Remedy, grant: Grant | None) -> Done | None:
    if grant is None:
        return None
    now, details = timezone.now(), {"number": grant.pk, "environment": settings.ENVIRONMENT, "time": ""}
    match offered.change:
        case remedies.EXTEND:
            grant.ends = now + timedelta(days=remedies.EXTENSION_DAYS)
            details["time"] = local_time.format_time_with_zone(grant.ends, "minutes")
            changed, text = "ends", _("Grant %(number)s now ends on %(time)s.")
        case remedies.REMOVE_END:
            grant.ends = None
            changed, text = "ends", _("Grant %(number)s no longer ends.")
        case remedies.START:
            grant.starts = now
            changed, text = "starts", _("Grant %(number)s has started.")
        case _apply_here:
            grant.environments = [*grant.environments, settings.ENVIRONMENT]
            changed, text = "environments", _("Grant %(number)s now also applies in %(environment)s.")
    grant.full_clean()
    grant.save(update_fields=[changed])
    return Done(text % details, _history("catalog_grant", grant.pk), _("View history"))


def _history(page: str, key: int) -> str:
    return reverse(f"admin:{page}_history", args=[key])


def _report_stale(request: HttpRequest) -> None:
    messages.error(
        request, _("This change no longer applies. Nothing was changed. The page shows the current reasons.")
    )
