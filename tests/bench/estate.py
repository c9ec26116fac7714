"""A large installation in bulk: tools, people, who may use what, and what years leave in every other table.

`grow(10_000, 1_000)` adds what is missing up to so many tools and users, with everything else in proportion. Numbers 0
are the ones that have most of everything: user 0 is in every group and sees every tool, group 0 holds everybody,
toolset 0 holds every tool, tool 0 has grants, limits and versions without end. The calls come from `seed_calls`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

BATCH_ROWS = 2_000


def describe_api(number: int) -> str:
    """Return an OpenAPI document of fifty operations."""
    paths = {f"/things{place}": {"get": {"operationId": f"api{number}_{place}"}} for place in range(50)}
    content = {"openapi": "3.1.0", "info": {"title": f"API {number}"}, "servers": [{"url": "https://api.example.com"}]}
    return json.dumps(content | {"paths": paths})


WORDS = (
    "invoice", "customer", "quarter", "weather", "forecast", "budget", "shipment", "report", "contract", "meeting",
    "summary", "draft",
)  # fmt: skip
VERBS = ("find", "list", "get", "create", "update", "remove", "send", "count")


def tool_name(number: int) -> str:
    return f"tool_{number:05d}"


def user_name(number: int) -> str:
    return f"seed{number:04d}"


def id_at(ms: int, number: int) -> uuid.UUID:
    """A UUIDv7 of that millisecond."""
    return uuid.UUID(int=(ms << 80) | (0x7 << 76) | (0x8 << 60) | (number & ((1 << 60) - 1)))


def schema_of(number: int) -> dict[str, Any]:
    """Eight parameters as a rule, forty now and then."""
    count = 40 if number % 97 == 0 else 3 + number % 10
    properties: dict[str, Any] = {}
    for place in range(count):
        word = WORDS[(number + place) % len(WORDS)]
        name = f"{word}_{place}"
        text = f"The {word} that is meant, as the books of the quarter name it; see the handbook, part {place}."
        if place % 4 == 3:
            properties[name] = {"type": "string", "enum": [f"{word}-{one}" for one in range(6)], "description": text}
        else:
            kind = ("string", "integer", "boolean")[place % 3]
            properties[name] = {"type": kind, "description": text}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties)[:2],
        "additionalProperties": False,
    }


def describe(number: int) -> str:
    verb, word = VERBS[number % len(VERBS)], WORDS[number % len(WORDS)]
    other = WORDS[(number // 12) % len(WORDS)]
    return (
        f"{verb.capitalize()} the {word} of number {number} with what is known about its {other}. Use it when somebody "
        f"asks for the {word}; it reads the {other} first and says what is missing."
    )


def _save(model: Any, rows: Iterable[Any], **options: Any) -> list[Any]:
    made: list[Any] = model._base_manager.bulk_create(list(rows), batch_size=BATCH_ROWS, **options)
    return made


def _join(through: Any, pairs: Iterable[dict[str, Any]]) -> None:
    _save(through, (through(**pair) for pair in pairs), ignore_conflicts=True)


def grow(tools: int, users: int) -> None:
    """Up to so many; what is there already stays. Nothing of it is in the chain of the audit log."""
    from django.contrib.auth.models import User
    from django.db import transaction

    from catalog.models import Tool

    first_tool = Tool.objects.filter(name__startswith="tool_").count()
    first_user = User.objects.filter(username__startswith="seed").count()
    with transaction.atomic():
        people = _make_users(range(first_user, users))
        _make_identities(people, users)
        made = _make_tools(range(first_tool, tools))
        _make_rules(made, people)
        _make_other_rows(made, people, tools, users)
        _make_audit_rows(max(0, tools - first_tool))


def _make_users(numbers: range) -> list[Any]:
    from django.contrib.auth.models import Group, User
    from django.utils import timezone

    from toolhub.access.models import AccessToken

    made = _save(
        User,
        (
            User(
                username=user_name(number),
                email=f"{user_name(number)}@example.com",
                password="!",
                first_name=WORDS[number % len(WORDS)].capitalize(),
                is_staff=number % 50 == 49,
            )
            for number in numbers
        ),
    )
    size = max(2, numbers.stop // 20)
    there = set(Group.objects.values_list("name", flat=True))
    names = [name for name in (f"team {number:03d}" for number in range(size)) if name not in there]
    _save(Group, (Group(name=name) for name in names))
    groups = list(Group.objects.filter(name__startswith="team ").order_by("name"))
    zero = User.objects.get(username=user_name(0))
    member = User.groups.through
    _join(member, ({"user_id": zero.pk, "group_id": group.pk} for group in groups))
    for place, user in zip(numbers, made, strict=True):
        user.place = place
    _join(member, ({"user_id": user.pk, "group_id": groups[0].pk} for user in made))
    _join(member, ({"user_id": user.pk, "group_id": groups[user.place % len(groups)].pk} for user in made))
    now = timezone.now()
    owners = [user for user in made for _ in range(2)] + [zero] * min(len(made) // 2, 90)
    tokens = _save(
        AccessToken,
        (
            AccessToken(
                user=owner,
                name=f"laptop {number}",
                digest=hashlib.sha256(uuid.uuid4().bytes).hexdigest(),
                prefix="thp_abcd",
                expires=now + timedelta(days=90 if number % 5 else -1),
                last_used=now,
                last_address="192.0.2.1",
                client_key="curl",
            )
            for number, owner in enumerate(owners)
        ),
    )
    for before, after in itertools.pairwise(tokens):
        # Of each pair of one owner the later one: half of somebody's tokens were rotated.
        if before.user_id == after.user_id and before.replaces is None:
            after.replaces = before
    AccessToken.objects.bulk_update(tokens, ["replaces"], batch_size=BATCH_ROWS)
    _make_apps(owners)
    _make_invitations(zero, made, groups)
    _make_provisioning(made)
    _make_factors(owners)
    return made


def _make_invitations(inviter: Any, people: list[Any], groups: list[Any]) -> None:
    """One for each of these people, accepted by most; the last one is for every group."""
    from django.utils import timezone

    from toolhub.people.models import Invitation

    now = timezone.now()
    made = _save(
        Invitation,
        (
            Invitation(
                email=f"invited-{user.email}",
                inviter=inviter,
                inviter_name=inviter.username,
                digest=hashlib.sha256(uuid.uuid4().bytes).hexdigest(),
                expires=now + timedelta(days=7 if user.place % 3 else -1),
                accepted=now if user.place % 2 else None,
                accepted_by=user if user.place % 2 else None,
                accepted_name=user.username if user.place % 2 else "",
            )
            for user in people
        ),
    )
    if made:
        pairs = ({"invitation_id": made[-1].pk, "group_id": group.pk} for group in groups)
        _join(Invitation.groups.through, pairs)


def _make_factors(owners: list[Any]) -> None:
    """For each of these owners a passkey, once per mention, as far as there is a place left for one more."""
    from allauth.mfa.models import Authenticator

    from tests import factories
    from toolhub.identity.mfa import passkeys

    found = Counter(Authenticator.objects.values_list("user_id", flat=True))
    rows = []
    for owner in owners:
        found[owner.pk] += 1
        if found[owner.pk] < passkeys.MAX_PASSKEYS:
            rows.append(factories.build_passkey(owner, f"Passkey {found[owner.pk]}"))
    _save(Authenticator, rows)


def _make_apps(owners: list[Any]) -> None:
    """For each of these owners, once per mention, an installation of a client that registered itself, connected."""
    from django.utils import timezone

    from toolhub.oauth.models import Client, ConnectedApp

    now = timezone.now()
    clients = _save(
        Client,
        (
            Client(
                client_id=str(uuid.uuid4()),
                name=f"Client {number}",
                client_type=Client.CLIENT_PUBLIC,
                client_secret="",
                hash_client_secret=False,
                authorization_grant_type=Client.GRANT_AUTHORIZATION_CODE,
                redirect_uris="http://127.0.0.1/callback",
                registration_source=Client.RegistrationSource.DCR,
                registered_from="192.0.2.1",
                last_used=now,
            )
            for number in range(len(owners))
        ),
    )
    _save(
        ConnectedApp,
        (
            ConnectedApp(
                user=owner,
                client=client,
                scope="mcp",
                destination="127.0.0.1",
                activated=now,
                expires=now + timedelta(days=90 if number % 5 else -1),
                last_used=now,
                last_address="192.0.2.1",
                question=hashlib.sha256(uuid.uuid4().bytes).hexdigest(),
                code_digest=hashlib.sha256(uuid.uuid4().bytes).hexdigest(),
            )
            for number, (owner, client) in enumerate(zip(owners, clients, strict=True))
        ),
    )


def _make_provisioning(people: list[Any]) -> None:
    """An identity provider that provisioned all of them, in its first group; every other group has one of them."""
    from django.contrib.auth.models import Group

    from toolhub.identity.models import GroupMapping, Identity, Provider
    from toolhub.scim.models import ScimGroup, ScimToken, ScimUser

    provider, _made = Provider.objects.get_or_create(
        slug="estate", defaults={"name": "Corp", "issuer": "https://idp.example.com", "enabled": True}
    )
    identities = _save(
        Identity,
        (
            Identity(
                user=user, provider=provider, issuer=provider.issuer, subject=f"sub-{user.username}", provisioned=True
            )
            for user in people
        ),
    )
    users = _save(
        ScimUser,
        (
            ScimUser(
                provider=provider,
                identity=identity,
                user_name=identity.user.username,
                user_name_key=identity.user.username,
            )
            for identity in identities
        ),
    )
    first = ScimGroup.objects.filter(provider=provider).count()
    names = [f"team there {number:04d}" for number in range(first, first + max(2, len(users) // 2))]
    _save(
        ScimGroup,
        (
            ScimGroup(provider=provider, display_name=name, display_name_key=name, external_id=name[-4:])
            for name in names
        ),
    )
    groups = list(ScimGroup.objects.filter(provider=provider).order_by("display_name"))
    member = ScimGroup.members.through
    _join(member, ({"scimuser_id": one.pk, "scimgroup_id": groups[0].pk} for one in users))
    _join(
        member,
        (
            {"scimuser_id": one.pk, "scimgroup_id": groups[1 + place % (len(groups) - 1)].pk}
            for place, one in enumerate(users)
        ),
    )
    team = Group.objects.filter(name__startswith="team ").order_by("name").first()
    _save(GroupMapping, (GroupMapping(provider=provider, value=name, group=team) for name in names[::3]))
    _save(
        ScimToken,
        (
            ScimToken(provider=provider, digest=hashlib.sha256(uuid.uuid4().bytes).hexdigest(), prefix="thi_abcd")
            for _ in range(len(users) // 2)
        ),
    )


def _make_tools(numbers: range) -> list[Any]:
    from django.utils import timezone

    from catalog.models import ReviewDecision, Tool, Toolset

    now = timezone.now()
    made: list[Any] = []
    for number in numbers:
        upstream = f"upstream{number % 10}" if number % 5 == 1 else ""
        tool = Tool(
            name=tool_name(number),
            title=f"{VERBS[number % len(VERBS)].capitalize()} {WORDS[number % len(WORDS)]} {number}",
            description=describe(number),
            input_schema=schema_of(number),
            read_only=number % 2 == 0,
            enabled=number % 40 != 39,
            runner="upstream_mcp" if upstream else "python_function",
            settings={"upstream": upstream, "tool": f"remote_{number}"} if upstream else {"function": "calculate_sum"},
        )
        if upstream:
            tool.pinned, tool.approved = "0" * 64, json.dumps({"name": f"remote_{number}"})
        if number % 25 == 2:
            tool.approved = json.dumps({"description": describe(number - 1), "inputSchema": schema_of(number - 1)})
            tool.proposed = json.dumps({"description": describe(number), "inputSchema": schema_of(number)})
            tool.quarantined_since = now
        made.append(tool)
    made = _save(Tool, made)
    for number, tool in zip(numbers, made, strict=True):
        tool.place = number
    reviewed = [tool for number, tool in zip(numbers, made, strict=True) if number % 5 == 3]
    _save(
        ReviewDecision,
        (ReviewDecision(tool=tool, decision="approved", made_by=user_name(0), before="{}") for tool in reviewed),
    )
    size = max(3, numbers.stop // 50)
    there = set(Toolset.objects.values_list("name", flat=True))
    names = [f"set {number:03d}" for number in range(size)]
    _save(Toolset, (Toolset(name=name, description=f"Tools of {name}.") for name in names if name not in there))
    sets = list(Toolset.objects.filter(name__startswith="set ").order_by("name"))
    _join(Tool.toolsets.through, ({"tool_id": tool.pk, "toolset_id": sets[0].pk} for tool in made))
    _join(
        Tool.toolsets.through,
        ({"tool_id": tool.pk, "toolset_id": sets[tool.place % len(sets)].pk} for tool in made),
    )
    history = Tool.history.model
    zero = Tool.objects.get(name=tool_name(0))
    versioned = [*made, *[zero] * (len(made) // 20)]
    fields = [field.attname for field in history.tracked_fields]
    _save(
        history,
        (
            history(
                history_date=now - timedelta(minutes=number),
                history_type="+" if number < len(made) else "~",
                **{name: getattr(tool, name) for name in fields},
            )
            for number, tool in enumerate(versioned)
        ),
    )
    return made


def _make_rules(tools: list[Any], people: list[Any]) -> None:
    from django.contrib.auth.models import Group, User

    from catalog.models import Grant, Limit, Tool, Toolset, ToolTest

    zero, first = User.objects.get(username=user_name(0)), Tool.objects.get(name=tool_name(0))
    groups = list(Group.objects.filter(name__startswith="team ").order_by("name"))
    sets = list(Toolset.objects.filter(name__startswith="set ").order_by("name"))
    chance = random.Random(3)
    grants = [Grant(toolset=one, group=groups[place % len(groups)]) for place, one in enumerate(sets)]
    grants += [Grant(toolset=sets[0], user=zero)]
    grants += [Grant(toolset=chance.choice(sets), group=chance.choice(groups)) for _ in people]
    grants += [Grant(toolset=chance.choice(sets), user=user, note=f"Asked for in {user.pk}") for user in people]
    grants += [Grant(tool=first, user=user, effect="deny" if user.place % 9 == 8 else "allow") for user in people]
    grants += [Grant(tool=tool, user=zero) for tool in tools[::5]]
    _save(Grant, grants)
    _make_conditions(first, people, groups, size=len(sets))
    limits = [Limit(tool=tool, rate="60/m") for tool in tools[::20]]
    limits += [Limit(tool=first, scope="user", user=user, rate="600/h") for user in people[::10]]
    limits += [Limit(toolset=one, scope="each_member", group=groups[0], rate="1000/d") for one in sets[::4]]
    limits += [Limit(all_tools=True, scope="user", user=user, rate="5000/d") for user in people[::4]]
    _save(Limit, limits)
    tests = [ToolTest(tool=tool, name="by itself", arguments={"a": 1}) for tool in tools[::3]]
    tests += [ToolTest(tool=first, name=f"as {user.pk}", user=user) for user in people]
    _save(ToolTest, tests)


def _make_conditions(tool: Any, people: list[Any], groups: list[Any], size: int) -> None:
    """Value lists and flags; list 0 has values of every group and user, and is used with flag 0 by most grants."""
    from catalog.models import Flag, Grant, ValueList, ValueListPart

    there = set(ValueList.objects.values_list("name", flat=True))
    names = [name for number in range(size) if (name := f"list_{number:03d}") not in there]
    lists = _save(ValueList, (ValueList(name=name, description=f"The values of {name}.") for name in names))
    _save(Flag, (Flag(name=name.replace("list", "flag"), percentage=place % 101) for place, name in enumerate(names)))
    first = ValueList.objects.get(name="list_000")
    values = [f"{word}-{number}" for word in WORDS for number in range(50)]
    with_values = set(first.parts.values_list("group", flat=True))
    parts = [ValueListPart(value_list=first, group=one, entries=values) for one in groups if one.pk not in with_values]
    parts += [ValueListPart(value_list=first, user=user, entries=values[:20]) for user in people]
    parts += [ValueListPart(value_list=one, everyone=True, entries=values) for one in lists]
    _save(ValueListPart, parts)
    own = {"path": "/invoice_0", "op": "belongs_to", "list": first.name}
    _save(Grant, (Grant(tool=tool, user=one, conditions=[own], flags=["flag_000"]) for one in people[::10]))


def _make_other_rows(tools: list[Any], people: list[Any], all_tools: int, all_users: int) -> None:
    from django.contrib.auth.models import User
    from django.utils import timezone

    from catalog.models import (
        ImportedDocument,
        PersonalSecret,
        Prompt,
        Resource,
        Secret,
        StoredResult,
        Task,
        Tool,
        Upstream,
    )
    from toolhub.access.models import ServingProcess
    from toolhub.pages.models import BackupConfirmation

    now = timezone.now()
    zero = User.objects.get(username=user_name(0))
    numbers = [tool.place for tool in tools]
    _save(
        Resource,
        (
            Resource(uri=f"docs://part/{number}", name=f"Part {number}", mime_type="text/plain", text=describe(number))
            for number in numbers[::10]
        ),
    )
    _save(
        Prompt,
        (
            Prompt(
                name=f"prompt_{number:05d}",
                description=describe(number),
                messages=[{"role": "user", "content": {"type": "text", "text": "Summarise it."}}],
            )
            for number in numbers[::10]
        ),
    )
    secrets = _save(
        Secret,
        (
            Secret(
                name=f"secret_{number:05d}", kind="personal" if number % 100 == 0 else "shared", description="A key."
            )
            for number in numbers[::50]
        ),
    )
    if not Secret.objects.filter(kind="account").exists():
        account = Secret(name="account_00000", kind="account", url="https://mcp.example.com/mcp", description="Notes.")
        _save(Secret, (account,))
    if secrets:
        _save(PersonalSecret, (PersonalSecret(user=user, secret=secrets[0]) for user in people))
    there = set(Upstream.objects.values_list("name", flat=True))
    wanted = [f"upstream{number}" for number in range(max(10, all_tools // 200))]
    _save(
        Upstream,
        (
            Upstream(name=name, url=f"https://{name}.example.com/mcp", last_seen=now)
            for name in wanted
            if name not in there
        ),
    )
    _make_batches(tools, all_tools)
    one = Upstream.objects.get(name="upstream0")
    theirs = [tool.pk for tool in tools if tool.settings.get("upstream") == one.name][:900]
    Tool.objects.filter(pk__in=theirs).update(origin=one.origin)
    _save(
        ImportedDocument,
        (
            ImportedDocument(
                name=f"document {number}",
                title=f"API {number}",
                source=f"api{number}.json",
                imported_at=now,
                kept=zlib.compress(describe_api(number).encode()),
            )
            for number in numbers[::200]
        ),
    )
    owners = people + [zero] * len(people)
    _save(
        Task,
        (
            Task(user=owner, credential="token:1", tool=tool_name(place % all_tools), status="completed")
            for place, owner in enumerate(owners)
        ),
    )
    _save(
        StoredResult,
        (
            StoredResult(user=owner, name=f"result {place}", body=b"x" * 200, size=200, expires_at=now)
            for place, owner in enumerate(owners)
        ),
    )
    _make_requests(tools, people, all_tools)
    _make_approvals(tools, people)
    _make_trials(tools, people)
    BackupConfirmation.objects.get_or_create(pk=BackupConfirmation.ONLY, defaults={"confirmed_by": zero.username})
    ServingProcess.objects.filter(pk="estate").delete()
    if all_users:
        report_process(all_users)


def _make_requests(tools: list[Any], people: list[Any], all_tools: int) -> None:
    """Toolsets that can be requested and that nobody fully has; requests and reports of everybody, most of user 0."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from catalog.models import AccessRequest, CallReport, Prompt, Tool, Toolset

    now, zero = timezone.now(), User.objects.get(username=user_name(0))
    there = set(Toolset.objects.values_list("name", flat=True))
    names = [name for number in range(max(2, all_tools // 100)) if (name := f"open {number:03d}") not in there]
    opened = _save(Toolset, (Toolset(name=name, requestable=True, request_text=describe(1)) for name in names))
    Toolset.objects.filter(name="set 000").update(requestable=True)
    prompt = Prompt.objects.order_by("name")[0]
    _join(Prompt.toolsets.through, ({"prompt_id": prompt.pk, "toolset_id": one.pk} for one in opened))
    pairs = ({"tool_id": tool.pk, "toolset_id": one.pk} for one in opened for tool in tools[:100])
    _join(Tool.toolsets.through, pairs)
    whole = Toolset.objects.get(name="set 000")

    def build(person: Any, state: str) -> AccessRequest:
        decided = {} if state == "open" else {"decided_by": zero.username, "decided_at": now, "answer": describe(2)}
        return AccessRequest(
            person=person, kind="toolset", toolset=whole, name=whole.name, reason=describe(3), state=state, **decided
        )

    _save(AccessRequest, (build(person, "open") for person in people))
    conditions = [{"path": f"/argument_{number}", "op": "equals", "value": describe(6)[:200]} for number in range(20)]
    for_tools = (
        AccessRequest(
            person=zero,
            kind="tool",
            toolset=whole,
            tool=tool,
            name=tool.name,
            reason=describe(3),
            conditions=conditions,
        )
        for tool in tools[:20]
    )
    _save(AccessRequest, for_tools)
    _save(AccessRequest, (build(zero, ("approved", "declined")[number % 2]) for number in range(len(people))))
    _save(
        CallReport,
        (
            CallReport(
                person=zero if number % 2 else person,
                call_id=uuid.uuid4(),
                name=tool_name(0),
                outcome="timeout",
                detail=describe(4),
                comment=describe(5),
                state="open" if number < len(people) else "closed",
            )
            for number, person in enumerate(people * 2)
        ),
    )


def _make_trials(tools: list[Any], people: list[Any]) -> None:
    """Rules of every kind in trial, at most as many as there may be, and calls that many of them would have changed."""
    from django.utils import timezone

    from audit.types import Reason
    from catalog.models import ApprovalRule, Grant, Limit
    from catalog.models.rule_trials import MAX_TRIALS
    from tests.audit import rows

    since = timezone.now() - timedelta(days=60)
    models = (Grant, Limit, ApprovalRule)
    room = MAX_TRIALS - sum(model.everything.filter(trial=True).count() for model in models)
    if not tools or not people or room < len(models):
        return
    started = {"trial": True, "trial_since": since}
    grants = [Grant(tool=tool, everyone=True, effect="deny", **started) for tool in tools[: min(room, 47) - 2]]
    made = _save(Grant, grants)
    _save(Limit, [Limit(tool=tools[0], rate="7/m", **started)])
    _save(ApprovalRule, [ApprovalRule(name=f"trial {room}", tool=tools[0], asks="person", **started)])
    notes = [["grant", row.pk, "allow", "deny"] for row in made[:20]]
    text = Reason("rule.grant", {"number": 1, "trials": notes}).text
    rows.save(
        *(
            rows.build_call(
                number,
                user=people[number % len(people)],
                name=tool_name(0),
                rule_reason=text,
                started_at=since + timedelta(seconds=room * 1_000 + number),
            )
            for number in range(len(tools))
        )
    )


def _make_approvals(tools: list[Any], people: list[Any]) -> None:
    """A rule that asks the first team, of which user 0 is a member; a request of everybody, half of them decided."""
    from django.contrib.auth.models import Group, User
    from django.utils import timezone

    from catalog.models import Approval, ApprovalRule
    from tests import factories

    now, zero = timezone.now(), User.objects.get(username=user_name(0))
    team = Group.objects.filter(name__startswith="team ").order_by("name").first()
    if team is None or not tools:
        return
    zero.groups.add(team)
    rule, _made = ApprovalRule.objects.get_or_create(name="estate", defaults={"tool": tools[0], "group": team})

    def build(number: int, person: Any, state: str) -> Approval:
        decided = {"decided_by": zero, "decided_by_name": zero.username, "decided_at": now} if state == "denied" else {}
        return factories.build_approval(
            user=person,
            credential="token:1",
            credential_name="laptop",
            client="claude-code 2.1",
            tool=tools[number % len(tools)],
            tool_name=tools[number % len(tools)].name,
            rule=rule,
            rule_name=rule.name,
            asks="approvers",
            group=team,
            arguments=json.dumps({"text": describe(number)}),
            state=state,
            expires=now + timedelta(days=1),
            **decided,
        )

    states = ("waiting", "denied")
    _save(Approval, (build(number, person, states[number % 2]) for number, person in enumerate([zero, *people])))


def _make_batches(tools: list[Any], all_tools: int) -> None:
    """Imports: half of the tools are of the first one, so that it has most, and the others have a few each."""
    from catalog.models import ImportBatch, ImportedItem

    there = ImportBatch.objects.count()
    wanted = max(2, min(200, all_tools // 10))
    _save(
        ImportBatch,
        (
            ImportBatch(kind="file", source=f"batch{number}.yaml", made_by=user_name(0), number=all_tools // 2)
            for number in range(there, wanted)
        ),
    )
    first, *others = ImportBatch.objects.order_by("pk")
    _save(
        ImportedItem,
        (
            ImportedItem(tool=tool, batch=first if number % 2 else others[number // 2 % len(others)], digest="x")
            for number, tool in enumerate(tools)
        ),
    )


def _make_identities(people: list[Any], users: int) -> None:
    """Providers, of which few are on; everybody is at the first one, which decides the teams."""
    from django.contrib.auth.models import Group
    from django.utils import timezone

    from toolhub.identity.models import GroupMapping, Identity, Provider

    there = set(Provider.objects.values_list("slug", flat=True))
    slugs = [slug for slug in (f"seed-{number:03d}" for number in range(max(2, users // 3))) if slug not in there]
    _save(
        Provider,
        (Provider(slug=slug, name=slug.title(), issuer=f"https://{slug}.example", client_id="hub") for slug in slugs),
    )
    Provider.objects.filter(slug__in=("seed-001", "seed-002")).update(enabled=True)
    first = Provider.objects.get(slug="seed-000")
    groups = Group.objects.filter(name__startswith="team ").exclude(pk__in=first.mappings.values("group"))
    _save(GroupMapping, (GroupMapping(provider=first, value=group.name, group=group) for group in groups))
    now = timezone.now()
    _save(
        Identity,
        (
            Identity(
                user=user,
                provider=first,
                issuer=first.issuer,
                subject=str(user.pk),
                label=user.username,
                claimed_groups=[f"group {number}" for number in range(20)],
                last_sign_in=now,
                checked=now,
                valid_until=now + timedelta(hours=24),
            )
            for user in people
        ),
    )


def report_process(clients: int) -> None:
    """A process that says it serves so many clients just now."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from toolhub.access.models import AccessToken, ServingProcess

    now = timezone.now()
    people = list(User.objects.filter(username__startswith="seed").values_list("pk", "username")[:clients])
    tokens = dict(AccessToken.objects.filter(user__username__startswith="seed").values_list("user_id", "pk"))
    peers = [
        {
            "kind": ("session", "websocket", "stateless")[number % 3],
            "key": f"session-{number}",
            "user_id": pk,
            "user": name,
            "credential": f"token:{tokens.get(pk)}",
            "token": "laptop",
            "client": "claude-code",
            "version": "2.1",
            "revision": "2025-11-25",
            "address": "192.0.2.1",
            "streams": number % 2,
            "since": now.timestamp() - 3600,
            "seen": now.timestamp() - number,
            "called": now.timestamp() - number,
        }
        for number, (pk, name) in enumerate(people)
    ]
    ServingProcess.objects.update_or_create(
        pk="estate", defaults={"host": "here", "pid": 1, "started": now, "beat": now, "peers": json.dumps(peers)}
    )


def _make_audit_rows(size: int) -> None:
    """Actions, checkpoints, verifications and saved views, as years leave them: past the recorder, in no chain."""
    from django.contrib.admin.models import LogEntry
    from django.contrib.auth.models import User
    from django.utils import timezone

    from audit.format import keys
    from audit.models import Action, Checkpoint, SavedView, Verification

    now = timezone.now()
    ms = time.time_ns() // 1_000_000
    before, after = json.dumps({"description": describe(1)}), json.dumps({"description": describe(2)})
    _save(
        Action,
        (
            Action(
                id=id_at(ms - number * 60_000, number),
                at=now - timedelta(minutes=number),
                actor=user_name(0),
                verb=("change", "add", "delete")[number % 3],
                kind=("tool", "grant", "user")[number % 3],
                target=tool_name(number % max(1, size)),
                before=before,
                after=after,
                link=number,
            )
            for number in range(size * 3)
        ),
    )
    last = Checkpoint.objects.values_list("number", flat=True).first() or 0
    heads = json.dumps({str(writer): [writer, "a" * 64] for writer in range(20)})
    own = keys.key_name()
    _save(
        Checkpoint,
        (
            Checkpoint(
                number=last + number + 1,
                at=now,
                heads=heads,
                previous="a" * 64,
                hash="b" * 64,
                key=own,
                signature="c" * 128,
            )
            for number in range(size)
        ),
    )
    _save(
        Verification,
        (
            Verification(
                id=id_at(ms - number, number), at=now, ok=True, through="", problem="", links=9, outside_head=False
            )
            for number in range(size // 10)
        ),
    )
    zero = User.objects.get(username=user_name(0))
    there = SavedView.objects.count()
    _save(
        SavedView,
        (
            SavedView(owner=zero, name=f"view {there + number}", filters='{"outcome": "ok"}', shared=True)
            for number in range(max(2, size // 50))
        ),
    )
    _save(
        LogEntry,
        (
            LogEntry(user=zero, action_flag=2, object_repr=tool_name(number), object_id="1", change_message="[]")
            for number in range(size // 4)
        ),
    )
