"""A demo installation that has something on every page, and which pages there are: for pictures and for axe.

`fill` runs inside a hub by `Hub.call`. What it returns is what `tests.census` puts into addresses.
"""

from __future__ import annotations

import json
import random
import uuid
from datetime import timedelta
from typing import Any

from tests.browser.seed import PASSWORD

CLIENTS = (("claude-code", "2.1.0"), ("Claude Desktop", "1.4.2"), ("cursor-vscode", "1.9.0"), ("inspector", "2.12.0"))
OUTCOMES = ("ok",) * 40 + ("tool_error",) * 2 + ("invalid_arguments", "refused", "limited", "timeout", "cancelled")
EXAMPLES: dict[str, tuple[dict[str, Any], str]] = {
    "calculate_sum": ({"a": 1250.5, "b": 349}, "1599.5"),
    "get_weather": ({"latitude": 46.95, "longitude": 7.44}, "12 °C, light rain"),
    "run_sql_query": ({"region": "north", "year": 2025}, "32 orders, 48 210 in total"),
    "read_file": ({"path": "reports/2026.csv"}, "month,amount\n1,1200\n2,990"),
    "web_search": ({"query": "model context protocol"}, "Three results"),
}


def fill() -> dict[str, Any]:
    """People, the example catalogue, a week of calls; one of everything that an address may name."""
    from allauth.mfa.models import Authenticator
    from django.contrib.auth.models import Group, User
    from django.utils import timezone

    from audit.actions import log
    from catalog.examples import catalogue
    from catalog.models import Tool, Toolset
    from tests import census, factories
    from toolhub.access import rotation
    from toolhub.access.models import AccessToken

    people = {
        name: User.objects.create_user(name, password=PASSWORD, email=f"{name}@example.com", first_name=first)
        for name, first in (("alice", "Alice"), ("bob", "Bob"), ("charlie", "Charlie"))
    }
    User.objects.create_superuser("root", password=PASSWORD)
    auditor = User.objects.create_user("auditor", password=PASSWORD, is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))
    address_values = census.create_address_values(people["alice"])
    # She signs in with her password.
    Authenticator.objects.filter(user=people["alice"]).update(user=people["bob"])
    User.objects.create_user("demo")
    catalogue.load()
    analysts = factories.make_group("Analysts", [people["alice"], people["bob"]])
    factories.make_group("Support", [people["charlie"]])
    for toolset in Toolset.objects.exclude(name="Census"):
        factories.grant(analysts, toolset)
    tool = Tool.objects.get(name="calculate_sum")
    factories.limit("60/h", tool, note="Agreed with the data team.")
    factories.deny(people["bob"], tool, note="Uses the new one.")
    tool.title = "Calculate a sum"
    tool.save()
    for name, key in (("Claude Code on my laptop", "claude-code"), ("Cursor", "cursor"), ("curl", "curl")):
        token, _text = AccessToken.objects.issue(people["alice"], name, client_key=key)
        AccessToken.objects.filter(pk=token.pk).update(
            last_used=timezone.now() - timedelta(minutes=5), last_address="10.0.0.7"
        )
        rotation.rotate(AccessToken.objects.all(), token.pk, keep_hours=24 if key == "cursor" else 0)
    enter_secrets(people["alice"])
    newest = make_calls(people["alice"], people["bob"])
    make_approvals(people["alice"], people["bob"], analysts)
    make_trials(tool, analysts)
    log.record("enabled", "tool", "calculate_sum")
    address_values |= {"tool": tool.pk, "catalog_tool": tool.pk, "call": newest, "audit_call": newest}
    address_values["catalog_tool_version"] = tool.history.first().pk
    return {name: str(value) for name, value in address_values.items()}


def make_calls(*users: Any) -> uuid.UUID:
    """A week of calls, most of them fine; the id of the newest."""
    from django.utils import timezone

    from audit.queries.search import id_at
    from catalog.models import Tool
    from tests.audit import rows

    chance, now, made = random.Random(4), timezone.now(), []
    tools = dict(Tool.objects.values_list("name", "pk"))
    for number in range(420):
        name, (arguments, said) = chance.choice(list(EXAMPLES.items()))
        outcome = chance.choice(OUTCOMES) if number else "ok"
        client, version = CLIENTS[number % len(CLIENTS)]
        started = now - timedelta(minutes=number * 24 + 3)
        content = {"content": [{"type": "text", "text": said}], "isError": outcome == "tool_error"}
        made.append(
            rows.build_call(
                id=uuid.UUID(int=id_at(started).int | 0x7000_8000_0000_0000_0000 | number),
                user=users[number % 5 == 4],
                credential="Claude Code on my laptop",
                client_name=client,
                client_version=version,
                name=name,
                target_id=tools.get(name),
                arguments=json.dumps(arguments),
                result=json.dumps(content) if outcome in {"ok", "tool_error"} else "",
                outcome=outcome,
                started_at=started,
                ended_at=started + timedelta(milliseconds=40),
                duration_us=int(chance.lognormvariate(10.5, 1)),
            )
        )
    rows.save(*made)
    found: uuid.UUID = made[0].pk
    return found


def make_trials(tool: Any, analysts: Any) -> None:
    """A denial and a narrower grant in trial, and what they would have changed about a week of calls."""
    from audit.models import Call
    from audit.types import Reason
    from catalog.models import Grant
    from tests import factories, trial_notes

    denial = trial_notes.begin(factories.deny(None, tool, trial=True, note="Nobody needs it any more."), days=7)
    wide = Grant.objects.filter(group=analysts).order_by("pk").first()
    narrow = factories.grant(
        analysts, tool, trial=True, replaces=wide, conditions=[{"path": "/a", "op": "range", "maximum": 1000}]
    )
    trial_notes.begin(narrow, days=3)
    for name, notes in (
        ("calculate_sum", [["grant", denial.pk, "allow", "deny"]]),
        ("read_file", [["grant", narrow.pk, "allow", "deny"]]),
        ("get_weather", [["grant", narrow.pk, "allow", "deny"], ["grant", denial.pk, "allow", "ask"]]),
    ):
        Call.objects.filter(name=name).update(rule_reason=Reason("rule.grant", {"trials": notes}).text)


def make_approvals(alice: Any, bob: Any, analysts: Any) -> None:
    """Requests of Bob that alice can decide, one of hers that others decide, and some that are decided."""
    from django.utils import timezone

    from catalog.models import ApprovalRule, Tool
    from tests import factories

    tool, now = Tool.objects.get(name="run_sql_query"), timezone.now()
    rule = ApprovalRule.objects.create(
        name="Queries of large regions", tool=tool, group=analysts, minutes=60,
        conditions=[{"path": "/region", "op": "equals", "value": "north"}],
    )  # fmt: skip
    arguments = {
        "region": "north",
        "filter": {"since": "2026-01-01", "channels": ["web", "shop"]},
        "password": {"$redacted": "hmac-sha256:9f86d081884c7d65", "length": 12},
        "year": 2026,
    }
    for number, (user, state) in enumerate(
        ((bob, "waiting"), (bob, "waiting"), (alice, "waiting"), (alice, "denied"), (bob, "used"), (alice, "expired"))
    ):
        decided = {"decided_by": alice, "decided_by_name": "alice", "decided_at": now} if number in (3, 4) else {}
        factories.make_approval(
            user=user, credential="token:1", credential_name="Claude Code on my laptop",
            client="claude-code 2.1.0", tool=tool, tool_name=tool.name, rule=rule, rule_name=rule.name,
            rule_ids=[rule.pk], asks="approvers", group=analysts, arguments=json.dumps(arguments),
            state=state, created=now - timedelta(minutes=4 + number),
            expires=now + timedelta(minutes=56 - number), reason="Use the archive." if state == "denied" else "",
            **decided,
        )  # fmt: skip


NO_PAGES = {
    "admin/autocomplete/",
    "admin/jsi18n/",
    "admin/search/",
    "admin/audit/call/export/",
    "admin/catalog/tool/function/",
    "admin/catalog/grant/arguments/",
    "admin/access/people/",
    "admin/access/pick/",
    "admin/logout/",
    "",
}
"""Addresses that answer with something else than a page to look at."""


def addresses() -> list[tuple[str, str]]:
    """(whose browser, the address with names in braces) of every page that the census knows; one that answers with
    something else than a page, such as a redirect, is found when it is opened."""
    from tests import census

    found = []
    for rule in census.every_rule():
        offered = census.verb_of(rule.route)
        if "GET" not in rule.methods.split() or rule.route in NO_PAGES or rule.route.endswith("<path:object_id>/"):
            continue
        if (
            rule.who is census.MACHINE
            or (rule.empty and "no-such" not in rule.at)
            or (offered and offered[1] not in offered[0].verbs.split())
        ):
            continue
        whose = "root" if rule.who.is_staff else "" if rule.who is census.ANYONE else "alice"
        found.append((whose, "/" + (rule.at or rule.route)))
    return sorted(set(found))


def enter_secrets(alice: Any) -> None:
    """A personal secret with every kind of destination, one that is missing, and a shared one bound to its host."""
    from catalog.models import PersonalSecret, Secret, Tool, Upstream
    from tests import factories

    token = Secret.objects.get(name="github_token")
    bearer = {"Authorization": {"secret": "github_token", "prefix": "Bearer "}}
    for name, address in (("list_pulls", "https://github.example.org/pulls"), ("mirror", "http://10.0.0.5:8080/git")):
        settings = {"url": address, "static_headers": bearer}
        factories.grant(alice, factories.make_tool(name, title=name, runner="http_api", settings=settings))
    mine = PersonalSecret(secret=token, user=alice)
    mine.enter("an invented token")
    mine.save()
    factories.allow_destinations()
    mine.refresh_from_db()
    mine.destinations = {
        **{key: label for key, label in mine.destinations.items() if "example.org" not in key},
        "https://old.example.com": "https://old.example.com",
    }
    mine.save()
    token.hosts = ["api.github.com", "github.example.org", "old.example.com"]
    token.save()
    key = Secret.objects.get(name="web_search_key")
    key.hosts = ["*.example.com", Tool.objects.get(name="web_search").settings["url"].split("/")[2]]
    key.enter("an invented key")
    key.save()
    Upstream.objects.filter(name="census").update(
        headers={"Authorization": bearer["Authorization"], "X-Key": {"secret": "web_search_key"}}
    )


def is_page(window: Any, path: str) -> bool:
    """Whether this is a page; a redirect, a download and an answer for scripts are none."""
    from playwright.sync_api import Error

    try:
        response = window.page.goto(window.url + path)
    except Error as error:
        if "Download is starting" in str(error):
            return False
        raise
    kind = response.headers.get("content-type", "")
    return response.url == window.url + path and kind.startswith("text/html")


STILL = """async () => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("*, *::before, *::after { transition: none !important; animation: none !important }");
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  await document.fonts.ready;
  for (let frames = 0; frames < 2; frames++) await new Promise(requestAnimationFrame);
}"""


def stop_motion(page: Any) -> None:
    """Nothing moves any more: colours that are on their way are nobody's choice. What scripts put off until the next
    frame, such as names for the theme's boxes, is done."""
    page.evaluate(STILL)


def set_theme(page: Any, *, dark: bool) -> None:
    """Light or dark: the user's area follows the system, the admin's theme a class."""
    page.emulate_media(color_scheme="dark" if dark else "light")
    if "/admin/" in page.url:
        page.evaluate("dark => document.documentElement.classList.toggle('dark', dark)", dark)
