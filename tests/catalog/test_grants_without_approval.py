"""Grants whose calls run without approval: who may make and change them in the admin, and which calls they are for.

Whoever may change grants, and not the approval rules, makes no way round the rules, and widens none.
"""

from __future__ import annotations

import html
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from catalog.models import Grant, Tool
from catalog.policy import asking, loader
from catalog.policy.redundancy import Redundancy
from catalog.policy.rules import Requester
from catalog.trials import decisions
from tests import factories
from tests.catalog.approval_rules import LARGE, make_customer_tool, make_rule, sign_in

pytestmark = pytest.mark.django_db
EMEA = {"path": "/region", "op": "equals", "value": "emea"}
MAY = ("view_grant", "add_grant", "change_grant", "delete_grant", "view_tool", "change_tool")
REFUSAL = "Calls of this grant run without approval"


@pytest.fixture
def tool() -> Tool:
    return make_customer_tool()


@pytest.fixture
def lasting(alice: User, tool: Tool) -> Grant:
    return factories.grant(alice, tool, conditions=[EMEA], skips_approval=True)


def fill(row: Grant, **changes: Any) -> dict[str, Any]:
    """The form of a grant, as its page has it."""
    import json

    sent = {"effect": row.effect, "tool": row.tool_id, "user": row.user_id, "conditions": json.dumps(row.conditions)}
    sent |= {"skips_approval": "on"} if row.skips_approval else {}
    return {name: value for name, value in {**sent, **changes}.items() if value not in (None, "")}


def change(client: Client, row: Grant, **changes: Any) -> str:
    address = reverse("admin:catalog_grant_change", args=[row.pk])
    return html.unescape(client.post(address, fill(row, **changes), follow=True).content.decode())


def ask(user: User, tool: Tool, **arguments: Any) -> list[str]:
    catalogue = factories.load()
    found = asking.find_asks(
        catalogue, Requester(user.pk), catalogue.tools[tool.name], 0.0, "test", arguments, arguments
    )
    return [rule.name for one in found.asks for rule in one.rules]


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_who_may_not_change_approval_rules_makes_none(alice: User, tool: Tool) -> None:
    client = sign_in(*MAY)
    row = Grant(user=alice, tool=tool, conditions=[EMEA])
    client.post(reverse("admin:catalog_grant_add"), fill(row, skips_approval="on"))
    assert [one.skips_approval for one in Grant.objects.all()] == [False], "the box is not theirs to tick"


@pytest.mark.parametrize(
    "changes", [{"conditions": "[]"}, {"ends": ""}, {"note": "mine"}, {"user": "root"}, {"effect": "deny"}]
)
def test_who_may_not_change_approval_rules_changes_none(lasting: Grant, root: User, changes: dict[str, Any]) -> None:
    if "user" in changes:
        changes = {"user": root.pk}
    if "ends" in changes:
        changes = {"ends_0": "2030-01-01", "ends_1": "00:00"}
    before = Grant.objects.values().get(pk=lasting.pk)
    assert REFUSAL in change(sign_in(*MAY), lasting, **changes)
    assert Grant.objects.values().get(pk=lasting.pk) == before


def test_nor_by_the_page_of_the_tool(lasting: Grant, alice: User) -> None:
    client = sign_in(*MAY)
    page = reverse("admin:catalog_tool_change", args=[lasting.tool_id])
    form: dict[str, Any] = {}
    shown = client.get(page).context
    for one in (shown["adminform"].form, *(formset.formset for formset in shown["inline_admin_formsets"])):
        for field in [*(one if hasattr(one, "fields") else one.management_form)] + [
            field for inner in ([] if hasattr(one, "fields") else one.forms) for field in inner
        ]:
            value = field.value()
            if value not in (None, False) and not isinstance(value, list):
                form[field.html_name] = value
    mine = [name for name in form if name.endswith("-conditions") and "emea" in str(form[name])]
    assert len(mine) == 1, sorted(form)
    answer = client.post(page, {**form, mine[0]: "[]", "cost_per_kilobyte": "0"}, follow=True)
    assert REFUSAL in html.unescape(answer.content.decode())
    lasting.refresh_from_db()
    assert lasting.conditions == [EMEA]


def test_nor_by_a_version_of_before(alice: User, lasting: Grant) -> None:
    lasting.skips_approval = False
    lasting.save()
    first = Grant.history.filter(id=lasting.pk).order_by("history_id").first()
    page = reverse("admin:catalog_grant_simple_history", args=[lasting.pk, first.pk])
    answer = sign_in(*MAY).post(page, fill(lasting, skips_approval="on"), follow=True)
    assert REFUSAL in html.unescape(answer.content.decode())
    lasting.refresh_from_db()
    assert not lasting.skips_approval


@pytest.mark.parametrize("replaces", [True, False])
def test_nor_by_putting_a_trial_in_force(alice: User, lasting: Grant, replaces: bool) -> None:
    fields: dict[str, Any] = {"replaces": lasting} if replaces else {"skips_approval": True}
    tried = factories.grant(alice, Tool.objects.get(), trial=True, **fields)
    page = reverse("admin:catalog_grant_put_in_force", args=[tried.pk])
    for client in (sign_in(*MAY),):
        assert (
            client.get(page).status_code == client.post(page, {"seen": decisions.fingerprint(tried)}).status_code == 403
        )
    assert Grant.everything.get(pk=tried.pk).trial
    assert sign_in(*MAY, "change_approvalrule").get(page).status_code == 200


def test_a_denial_or_a_grant_of_a_resource_is_never_one(alice: User, tool: Tool) -> None:
    resource = factories.make_resource()
    for row in (
        Grant(user=alice, tool=tool, effect="deny", skips_approval=True),
        Grant(user=alice, resource=resource, skips_approval=True),
    ):
        with pytest.raises(ValidationError, match="Only a grant that allows a tool or a toolset"):
            row.full_clean()
        with pytest.raises(IntegrityError), transaction.atomic():
            row.save()


# --- what it does -----------------------------------------------------------------------------------------------------


def test_who_may_change_approval_rules_makes_and_changes_them(alice: User, lasting: Grant) -> None:
    client = sign_in(*MAY, "change_approvalrule")
    assert REFUSAL not in change(client, lasting, note="Every Monday")
    lasting.refresh_from_db()
    assert (lasting.note, lasting.skips_approval) == ("Every Monday", True)
    change(client, lasting, skips_approval="")
    lasting.refresh_from_db()
    assert not lasting.skips_approval


def test_who_may_not_reads_it_and_may_end_it(lasting: Grant) -> None:
    client = sign_in(*MAY)
    listed = client.get(reverse("admin:catalog_grant_changelist"), {"skips_approval__exact": "1"}).content.decode()
    assert "runs without approval" in html.unescape(listed)
    assert REFUSAL not in change(client, lasting), "nothing changed"
    client.post(reverse("admin:catalog_grant_delete", args=[lasting.pk]), {"post": "yes"})
    assert not Grant.objects.exists()


def test_its_calls_ask_nobody_whatever_rule_there_is(alice: User, lasting: Grant, tool: Tool) -> None:
    factories.grant(alice, tool)
    group = factories.make_group("leads")
    make_rule(name="Deletions", tool=tool)
    make_rule(group, name="All tools")
    assert ask(alice, tool, region="emea") == []
    assert ask(alice, tool, region="apac") == ["Deletions", "All tools"]


@pytest.mark.parametrize(
    "fields",
    [
        {"ends": timezone.now() - timedelta(days=1)},
        {"starts": timezone.now() + timedelta(days=1)},
        {"environments": ["elsewhere"]},
        {"trial": True},
    ],
)
def test_one_that_is_not_in_force_lifts_nothing(alice: User, tool: Tool, fields: dict[str, Any]) -> None:
    factories.grant(alice, tool)
    factories.grant(alice, tool, skips_approval=True, **fields)
    make_rule(name="Deletions", tool=tool)
    catalogue, now = factories.load(), timezone.now().timestamp()
    found = asking.find_asks(
        catalogue, Requester(alice.pk), catalogue.tools[tool.name], now, "test", {"region": "emea"}, {"region": "emea"}
    )
    assert len(found.asks) == 1 and found.lifted_by is None


def test_it_lifts_nothing_for_anybody_else(alice: User, bob: User, lasting: Grant, tool: Tool) -> None:
    factories.grant(bob, tool)
    make_rule(name="Deletions", tool=tool)
    assert ask(bob, tool, region="emea") == ["Deletions"]


def test_pages_that_tell_what_may_ask_know_it(alice: User, tool: Tool) -> None:
    make_rule(name="Deletions", tool=tool)
    row = factories.grant(alice, tool, conditions=[EMEA], skips_approval=True)

    def count() -> int:
        catalogue = factories.load()
        return len(asking.all_asks(catalogue, Requester(alice.pk), catalogue.tools[tool.name], 0.0, "test"))

    assert count() == 1, "calls for another region ask"
    row.conditions = []
    row.save()
    assert count() == 0


def test_it_is_covered_only_by_another_one_like_it(alice: User, tool: Tool) -> None:
    factories.grant(None, tool)
    row = factories.grant(alice, tool, skips_approval=True)
    assert row.pk not in Redundancy(factories.load()).find_all()
    factories.grant(None, tool, skips_approval=True)
    assert row.pk in Redundancy(factories.load()).find_all()


def test_a_denial_that_somebody_wrote_into_the_table_lifts_nothing(alice: User, tool: Tool) -> None:
    row = Grant(id=1, user=alice, tool=tool, effect="deny", skips_approval=True)
    found = loader.grant_rule(row, (), ())
    assert found is not None and not found.skips_approval


def test_an_approval_in_progress_is_void_when_a_grant_changes_so(alice: User, tool: Tool) -> None:
    row = factories.grant(alice, tool)
    make_rule(name="Large", tool=tool, conditions=[LARGE])

    def digest() -> str:
        catalogue = factories.load()
        return asking.grants_digest(catalogue, Requester(alice.pk), catalogue.tools[tool.name], 0.0, "test")

    before = digest()
    row.skips_approval = True
    row.save()
    assert digest() != before
