"""Rows that tests need, with real defaults: a call gives what matters to the test and nothing else."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allauth.mfa.models import Authenticator
    from django.contrib.auth.models import Group, User

    from catalog.models import Approval, Grant, Limit, Prompt, Resource, Tool, Toolset, ValueList
    from catalog.policy.definitions import Snapshot

TWO_NUMBERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "number", "description": "The first number."},
        "b": {"type": "number", "description": "The second number."},
    },
    "required": ["a", "b"],
    "additionalProperties": False,
}


def make_toolset(name: str = "Numbers", **fields: Any) -> Toolset:
    from catalog.models import Toolset

    return Toolset.objects.get_or_create(name=name, defaults=fields)[0]


def make_tool(
    name: str = "calculate_sum",
    *,
    function: str = "calculate_sum",
    toolset: Toolset | str | None = None,
    clean: bool = False,
    **fields: Any,
) -> Tool:
    """A tool of the `python_function` runner; `settings` and `runner` make it another kind."""
    from catalog.models import Tool

    fields.setdefault("description", f"{name}: adds two numbers and changes nothing.")
    fields.setdefault("settings", {"function": function})
    if "input_schema" not in fields:
        fields["input_schema"] = TWO_NUMBERS
    tool = Tool(name=name, **fields)
    if clean:
        tool.full_clean()
    tool.save()
    if toolset is not None:
        tool.toolsets.add(make_toolset(toolset) if isinstance(toolset, str) else toolset)
    return tool


def make_resource(uri: str = "docs://handbook", *, toolset: Toolset | None = None, **fields: Any) -> Resource:
    """A static text; `uri_template=` and `function=` make a template."""
    from catalog.models import Resource

    template = fields.get("uri_template", "")
    fields.setdefault("name", (template or uri).rpartition("/")[2] or "resource")
    fields.setdefault("mime_type", "text/plain")
    if not fields.get("function") and fields.get("blob") is None:
        fields.setdefault("text", "Be kind, write tests.")
    resource = Resource.objects.create(uri="" if template else uri, **fields)
    if toolset is not None:
        resource.toolsets.add(toolset)
    return resource


def make_prompt(name: str = "greeting", *, toolset: Toolset | None = None, **fields: Any) -> Prompt:
    from catalog.models import Prompt

    fields.setdefault("description", "Greets somebody by name.")
    if not fields.get("function") and "messages" not in fields:
        fields["messages"] = [{"role": "user", "content": {"type": "text", "text": "Greet {name} warmly."}}]
        fields.setdefault("arguments", [{"name": "name", "description": "Whom to greet.", "required": True}])
    prompt = Prompt.objects.create(name=name, **fields)
    if toolset is not None:
        prompt.toolsets.add(toolset)
    return prompt


def grant(
    who: User | Group | None = None,
    *targets: Tool | Toolset | Resource | Prompt,
    effect: str = "allow",
    **fields: Any,
) -> Grant:
    """One grant for each target to a user, a group, or (None) everyone; the last one is returned."""
    from django.contrib.auth.models import Group

    from catalog.models import Grant

    if who is None:
        subject: dict[str, Any] = {"everyone": True}
    else:
        subject = {"group" if isinstance(who, Group) else "user": who}
    made = [
        Grant.objects.create(effect=effect, **subject, **{type(target).__name__.lower(): target}, **fields)
        for target in targets
    ]
    return made[-1]


def deny(who: User | Group | None, *targets: Tool | Toolset | Resource | Prompt, **fields: Any) -> Grant:
    return grant(who, *targets, effect="deny", **fields)


def limit(rate: str = "3/m", target: Tool | Toolset | str | None = None, **fields: Any) -> Limit:
    """For each user, unless `user=`, `group=` or `scope=` says otherwise; all tools unless a target is given.

    A target that is text names a method.
    """
    from catalog.models import Limit

    fields.setdefault("scope", "user" if fields.get("user") else "each_member" if fields.get("group") else "each_user")
    on: dict[str, Any] = {"all_tools": True} if target is None else {type(target).__name__.lower(): target}
    on = {"method": target} if isinstance(target, str) else on
    return Limit.objects.create(rate=rate, **on, **fields)


def make_value_list(name: str, values: Mapping[User | Group | None, list[str]]) -> ValueList:
    """A value list with these values of each user and group, and (None) of everyone."""
    from django.contrib.auth.models import Group

    from catalog.models import ValueList

    made = ValueList.objects.create(name=name)
    for who, entries in values.items():
        subject = {"everyone": True} if who is None else {"group" if isinstance(who, Group) else "user": who}
        made.parts.create(entries=entries, **subject)
    return made


def make_approval(**fields: Any) -> Approval:
    made = build_approval(**fields)
    made.save()
    return made


def build_approval(**fields: Any) -> Approval:
    """A request for approval as toolhub writes it: sealed, as its columns are. Not saved."""
    from catalog.approvals import bindings
    from catalog.models import Approval

    made = Approval(**{"call_id": uuid.uuid4(), "binding": uuid.uuid4().hex, "context": "", **fields})
    made.seal = bindings.seal(made)
    return made


def make_group(name: str = "analysts", members: Iterable[User] = ()) -> Group:
    from django.contrib.auth.models import Group

    group = Group.objects.get_or_create(name=name)[0]
    for user in members:
        user.groups.add(group)
    return group


def allow_destinations() -> None:
    """Everyone allows where the tools and upstream servers of now send the personal secrets that they entered."""
    from catalog.models import PersonalSecret
    from catalog.secrets import resolve

    uses = resolve.uses()
    for row in PersonalSecret.objects.select_related("secret"):
        found = [destination for use in uses.get(row.secret.name, ()) for destination in use.destinations]
        row.destinations = {destination.key: destination.label for destination in found}
        row.save()


def credential(user: User, **fields: Any) -> Any:
    """What bearer authentication would say about a token of this user."""
    from audit.types import Credential

    fields.setdefault("id", f"token:{user.pk}")
    fields.setdefault("label", "laptop")
    fields.setdefault("toolset_ids", None)
    fields.setdefault("expires_at", None)
    return Credential(user_id=user.pk, username=user.get_username(), **fields)


def load() -> Snapshot:
    """Put what the database holds now into the snapshot (in a test without a running poll)."""
    from catalog.policy import snapshot

    return snapshot.refresh()


def invite(inviter: User, email: str = "newcomer@example.com", *, groups: Iterable[Group] = (), **fields: Any) -> Any:
    """An invitation by this user; its link is `link_of` it."""
    from toolhub.people import invitations

    person = invitations.Person(email=email, groups=tuple(groups), **fields)
    return invitations.invite(inviter, person).invitation


def link_of(invitation: Any) -> str:
    """The path of the link of an invitation."""
    return f"/invitation/{invitation.derive_token()}"


def connect_app(
    user: User, name: str = "Claude", *, toolsets: Iterable[Toolset] | None = None, days: int = 90
) -> tuple[Any, dict[str, Any]]:
    """A client that this user connected, as the token endpoint would leave it, and the tokens that it got."""
    from types import SimpleNamespace

    from django.utils import timezone

    from toolhub.oauth import registration, rotation, tokens
    from toolhub.oauth.consent import Decision
    from toolhub.oauth.resources import RESOURCE

    wanted = registration.Wanted(name, ("http://127.0.0.1/callback",), "none", "native")
    client, _secret = registration.save(wanted, "203.0.113.7")
    question = tokens.new_code()[:64]
    decision = Decision("mcp", "127.0.0.1", question, days, None if toolsets is None else tuple(toolsets))
    app = decision.create_connection(user, client, tokens.new_code())
    app.activated = timezone.now()
    app.save()
    given = {
        "access_token": tokens.new_access_token(),
        "refresh_token": tokens.new_refresh_token(),
        "scope": "mcp",
        "expires_in": 3600,
    }
    rotation.store_tokens(given, SimpleNamespace(resource=[RESOURCE]), app, previous=None)
    return app, given


def make_provisioning(slug: str = "provisions") -> tuple[Any, Any]:
    """A token of an identity provider that provisions, and a group with one member that is mapped to nothing."""
    from toolhub.identity import accounts
    from toolhub.identity.models import Identity, Provider
    from toolhub.scim.models import ScimGroup, ScimToken, ScimUser

    provider = Provider.objects.create(slug=slug, name="Corp", issuer=f"https://{slug}.example", enabled=True)
    user = accounts.create(provider, "ada")
    identity = Identity.objects.create(user=user, provider=provider, issuer=provider.issuer, subject="sub-ada")
    member = ScimUser.objects.create(provider=provider, identity=identity, user_name="ada", user_name_key="ada")
    group = ScimGroup.objects.create(provider=provider, display_name="Analysts", display_name_key="analysts")
    group.members.add(member)
    return ScimToken.objects.issue(provider)[0], group


def build_passkey(user: User, name: str = "Laptop") -> Authenticator:
    """A passkey that no device has, as adding one would leave it; not saved."""
    from allauth.account.utils import user_pk_to_url_str
    from allauth.mfa.models import Authenticator

    from tests.identity.mfa.device import Device, encode

    handle = encode(user_pk_to_url_str(user).encode())
    options = {"publicKey": {"challenge": encode(b"c" * 32), "user": {"id": handle}}}
    data = {"name": name, "credential": json.loads(Device().create(options)), "sign_count": 1}
    return Authenticator(user=user, type=Authenticator.Type.WEBAUTHN, data=data)


def make_passkey(user: User, name: str = "Laptop") -> Authenticator:
    made = build_passkey(user, name)
    made.save()
    return made
