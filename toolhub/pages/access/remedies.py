"""Why a person does not see an item, for a page: each reason in words, with the change that removes it.

`catalog.policy.obstacles` explains with codes. Here they become sentences, links and buttons, as far as the viewer may
see what they name and make the change. `remedy_changes` decides all of it again before it changes anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from audit.types import Reason
from catalog import quarantine
from catalog.models import AccessRequest, Prompt, Resource, Tool, Upstream, validators
from catalog.policy import loader, messages, obstacles, rules
from catalog.policy.definitions import GRANT, GrantRule, Item, Kind, ResourceDefinition, Rule, ToolDefinition
from catalog.policy.obstacles import (
    CLOSED,
    ELSEWHERE,
    ENDED,
    FLAGS,
    LATER,
    NOT_MEMBER,
    ONLY_OTHERS,
    UNFIT,
    Explanation,
    Target,
)
from toolhub.access import hooks, privileges
from toolhub.access.models import AccessToken

EXTEND, REMOVE_END, START, APPLY_HERE = "extend", "remove-end", "start", "apply-here"
JOIN, GIVE, SWITCH_ON, SWITCH_ON_SERVER = "join", "give", "switch-on", "switch-on-server"
EXTENSION_DAYS = 30
CHANGES_GRANT = ("catalog.view_grant", "catalog.change_grant")
PERMISSIONS: Final[dict[str, tuple[str, ...]]] = {
    EXTEND: CHANGES_GRANT,
    REMOVE_END: CHANGES_GRANT,
    START: CHANGES_GRANT,
    APPLY_HERE: CHANGES_GRANT,
    JOIN: ("auth.change_user", "auth.view_group", "catalog.view_grant"),
    GIVE: ("catalog.add_grant",),
    SWITCH_ON: ("catalog.change_%(kind)s",),
    SWITCH_ON_SERVER: ("catalog.view_upstream", "catalog.change_upstream"),
}
"""What each change needs, as on the page where the same is done by hand."""
MODELS: Final[dict[str, Any]] = {"tool": Tool, "resource": Resource, "prompt": Prompt}
_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "tool": ("name", "enabled", "runner", "settings"),
    "resource": ("uri", "uri_template", "name", "enabled", "upstream"),
    "prompt": ("name", "enabled", "upstream"),
}
MAX_DENIALS = 3
OWN_GRANT = frozenset({LATER, CLOSED, ENDED, ELSEWHERE, FLAGS, UNFIT})
"""Obstacles of a grant to the person, that its own page removes."""
NEAR = OWN_GRANT | {NOT_MEMBER, ONLY_OTHERS}


@dataclass(frozen=True, slots=True)
class ItemFacts:
    """A tool, resource or prompt as far as its page needs it, switched on or off."""

    target: Target
    name: str
    enabled: bool = True
    runner: str = ""
    """The tool type; empty for resources and prompts."""
    upstream: str = ""
    """The name of the upstream server that the item comes from."""

    @classmethod
    def of_definition(cls, item: Item) -> ItemFacts:
        source = loader.upstream_source(item)
        return cls(
            Target(item.kind, item.id, item.toolset_ids),
            item.uri if isinstance(item, ResourceDefinition) else item.name,
            runner=item.runner if isinstance(item, ToolDefinition) else "",
            upstream=source[0] if source is not None else "",
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a page: this person, this item."""

    user_id: int
    username: str
    item: ItemFacts
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change for which a page has a button."""

    change: str
    grant_id: int | None
    label: str

    @property
    def value(self) -> str:
        """The value of the button: the change, and the grant that the person who chose it saw."""
        return self.change if self.grant_id is None else f"{self.change}:{self.grant_id}"


def _join_pattern() -> str:
    return _("%(grant)s. %(reason)s")


@dataclass(frozen=True, slots=True)
class Line:
    """One reason: what it is about, the sentence, and what can be done."""

    text: str
    about: str = ""
    link: str = ""
    remedies: tuple[Remedy, ...] = ()
    pages: tuple[tuple[str, str], ...] = ()
    """Address and words of the pages where the reader can go on."""

    @property
    def sentence(self) -> str:
        """The line as plain text, with a full stop at its end."""
        return (_join_pattern() % {"grant": self.about, "reason": self.text}).strip() if self.about else self.text

    @property
    def html(self) -> SafeString:
        """The line with the grant as a link."""
        if not self.about:
            return escape(self.text)
        about = format_html('<a href="{}">{}</a>', self.link, self.about)
        if not self.text:
            return about
        return SafeString(escape(_join_pattern()) % {"grant": about, "reason": escape(self.text)})


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer to one question."""

    asked: Asked
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        """All reasons as one text."""
        if len(self.lines) == 1 and not self.lines[0].text:
            return self.lines[0].about
        return " ".join(line.sentence for line in self.lines)

    def find(self, value: str) -> Remedy | None:
        """Return the remedy whose button has this value, if it is offered."""
        return next((one for line in self.lines for one in line.remedies if one.value == value), None)


def load_facts(kind: str, keys: Collection[int]) -> dict[int, ItemFacts]:
    """Return the facts of these items (by primary key) from the database, switched on or off."""
    model = MODELS[kind]
    toolsets: dict[int, set[int]] = {}
    through = model.toolsets.through.objects.filter(**{f"{kind}__in": keys})
    for key, toolset in through.values_list(f"{kind}_id", "toolset_id"):
        toolsets.setdefault(key, set()).add(toolset)
    found = {}
    for row in model._default_manager.filter(pk__in=keys).only(*_COLUMNS[kind]):  # not the content of resources
        target = Target(cast(Kind, kind), row.pk, frozenset(toolsets.get(row.pk, ())))
        runner, upstream = getattr(row, "runner", ""), getattr(row, "upstream", "")
        if runner == loader.UPSTREAM:
            upstream = str(row.settings.get("upstream", ""))
        found[row.pk] = ItemFacts(target, str(row), row.enabled, runner, upstream)
    return found


@dataclass
class Advisor:
    """The words and the offers for one viewer. A page asks once for all its rows, at a fixed number of queries."""

    request: HttpRequest
    now: float
    """Seconds since 1970 that were asked about."""
    environment: str
    actionable: bool = True
    """Whether changes are offered: they take effect now and here, whatever time and environment a page shows."""
    token: AccessToken | None = None
    """The token that was asked about, with its toolsets."""
    names_requests: bool = True
    """Whether open requests for access are named."""
    _reserved: frozenset[int] = field(default=frozenset(), init=False)
    _above: frozenset[int] = field(default=frozenset(), init=False)
    _managed: dict[tuple[int, int], str] = field(default_factory=dict, init=False)
    _upstreams: dict[str, Upstream] = field(default_factory=dict, init=False)
    """The upstream servers that are named, by name: none for a viewer who may not view them."""
    _requests: dict[tuple[int, str, int], int] = field(default_factory=dict, init=False)
    """The open request of a user for a toolset or tool."""

    def advise(self, asked: Sequence[Asked]) -> list[Advice]:
        """Return the answers, in the order of the questions."""
        self._look_up(asked)
        return [Advice(one, tuple(self._lines(one))) for one in asked]

    def may(self, change: str, kind: str = "tool") -> bool:
        """Return whether the viewer holds the permissions for this change."""
        return self.viewer.has_perms([name % {"kind": kind} for name in PERMISSIONS[change]])

    @cached_property
    def viewer(self) -> User:
        return cast(User, self.request.user)

    def _look_up(self, asked: Sequence[Asked]) -> None:
        pairs = {
            (one.user_id, int(reason.params["id"]))
            for one in asked
            for reason in one.explanation.obstacles
            if reason.code == NOT_MEMBER
        }
        if pairs and self._may_name_groups:
            users, groups = frozenset(user for user, _group in pairs), frozenset(group for _user, group in pairs)
            self._managed = hooks.installed().managed_memberships(users, groups)
            if self.actionable and self.may(JOIN):
                self._reserved = frozenset(row.pk for row in privileges.find_reserved_groups(self.viewer, groups))
                above = privileges.find_users_above(self.viewer).filter(pk__in=users)
                self._above = frozenset(above.values_list("pk", flat=True))
        names = {one.item.upstream for one in asked if one.item.upstream and _is_about_upstream(one.explanation)}
        if names and self.viewer.has_perm("catalog.view_upstream"):
            rows = Upstream.objects.filter(name__in=names).only("name", "enabled", "transport")
            self._upstreams = {row.name: row for row in rows}
        hidden_from = {one.user_id for one in asked if one.explanation.obstacles}
        if hidden_from and self.names_requests and self.viewer.has_perm("catalog.view_accessrequest"):
            requests = AccessRequest.objects.filter(person__in=hidden_from, state=AccessRequest.State.OPEN)
            for key, user, kind, toolset, tool in requests.values_list("pk", "person", "kind", "toolset", "tool"):
                self._requests[user, kind, tool if kind == AccessRequest.Kind.TOOL else toolset] = key

    @cached_property
    def _may_name_groups(self) -> bool:
        return self.viewer.has_perms(("catalog.view_grant", "auth.view_group"))

    def _lines(self, asked: Asked) -> Iterable[Line]:
        yield from self._obstacle_lines(asked)
        if asked.explanation.obstacles and (key := self._find_request(asked)) is not None:
            text = _("%(user)s requested it.") % {"user": asked.username}
            yield Line(text, pages=((reverse("pages:request", args=[key]), _("View request")),))

    def _find_request(self, asked: Asked) -> int | None:
        target = asked.item.target
        wanted = [(target.kind, target.id), *(("toolset", key) for key in sorted(target.toolset_ids))]
        found = (self._requests.get((asked.user_id, str(kind), key)) for kind, key in wanted)
        return next((key for key in found if key is not None), None)

    def _obstacle_lines(self, asked: Asked) -> Iterable[Line]:
        reasons = asked.explanation.obstacles
        denials = [reason for reason in reasons if reason.code == GRANT]
        for reason in reasons:
            if reason.code not in NEAR and reason.code != GRANT and reason != rules.NO_GRANT:
                yield self._general(asked, reason)
        for reason in denials[:MAX_DENIALS]:
            yield self._denial(cast(Rule, reason))
        if (more := len(denials) - MAX_DENIALS) > 0:
            text = ngettext("%(number)s more grant denies it.", "%(number)s more grants deny it.", more)
            yield Line(text % {"number": f"{more:,}"})
        # Whatever else is changed, the item stays hidden: a button would only seem to help.
        hopeless = bool(denials) or rules.INACTIVE in reasons or rules.NO_USER in reasons
        if rules.NO_GRANT in reasons:
            yield Line(messages.translate(rules.NO_GRANT), remedies=() if hopeless else self._give(asked))
        elif near := [reason for reason in reasons if reason.code in NEAR]:
            yield self._near(asked, cast(GrantRule, asked.explanation.grant), near, hopeless=hopeless)

    def _general(self, asked: Asked, reason: Reason) -> Line:
        item, kind = asked.item, asked.item.target.kind
        rule, pages = cast(Rule, reason), []
        if rule == rules.NOT_AVAILABLE and not item.enabled:
            usable = kind != "tool" or validators.may_use(item.runner)
            offered = self.actionable and usable and self.may(SWITCH_ON, kind)
            remedies = (Remedy(SWITCH_ON, None, _("Switch on")),) if offered else ()
            return Line(messages.translate(rules.DISABLED), remedies=remedies)
        server = self._upstreams.get(item.upstream)
        if rule in {rules.UNPINNED, rules.NOT_AVAILABLE} and server is not None:
            pages.append((reverse("admin:catalog_upstream_change", args=[server.pk]), _("View upstream server")))
        if rule == rules.NOT_AVAILABLE and item.upstream:
            return self._unavailable(server, tuple(pages))
        if rule.code in rules.REVIEWED and self.viewer.has_perm(quarantine.PERMISSION):
            pages.append((reverse(f"admin:catalog_{kind}_review", args=[item.target.id]), _("Review")))
        if rule == rules.INACTIVE and self.viewer.has_perm("auth.view_user"):
            pages.append((reverse("admin:auth_user_change", args=[asked.user_id]), _("User account")))
        if rule == rules.OTHER_TOOLSETS and self.token is not None:
            return self._restriction(self.token)
        return Line(messages.translate(rule), pages=tuple(pages))

    def _unavailable(self, server: Upstream | None, pages: tuple[tuple[str, str], ...]) -> Line:
        if server is None or server.enabled:
            return Line(_("It is not available from its upstream server."), pages=pages)
        usable = server.transport != Upstream.Transport.STDIO or validators.may_use("command")
        offered = self.actionable and usable and self.may(SWITCH_ON_SERVER)
        remedies = (Remedy(SWITCH_ON_SERVER, None, _("Switch on the upstream server")),) if offered else ()
        text = _("Its upstream server %(server)s is switched off.") % {"server": server.name}
        return Line(text, remedies=remedies, pages=pages)

    def _restriction(self, token: AccessToken) -> Line:
        text = messages.translate(rules.OTHER_TOOLSETS)
        names = ", ".join(toolset.name for toolset in token.toolsets.all())
        if names and self.viewer.has_perm("catalog.view_toolset"):
            text = _("The token is restricted to %(toolsets)s.") % {"toolsets": names}
        if not self.viewer.has_perm("access.view_accesstoken"):
            return Line(text)
        return Line(text, pages=((reverse("admin:access_accesstoken_change", args=[token.pk]), _("View token")),))

    def _denial(self, rule: Rule) -> Line:
        if not self.viewer.has_perm("catalog.view_grant"):
            return Line(_("A grant denies it."))
        text = _("Its conditions apply to every call.") if rule.params.get("conditional") else ""
        return Line(text, messages.translate(rule), grant_address(rule.params["number"]))

    def _near(self, asked: Asked, grant: GrantRule, near: Sequence[Reason], *, hopeless: bool) -> Line:
        remedies: tuple[Remedy, ...] = ()
        codes = {reason.code for reason in near}
        if not hopeless:
            remedies = self._changes(asked, grant, near)
            if not codes <= OWN_GRANT:
                remedies += self._give(asked)
        if not self.viewer.has_perm("catalog.view_grant"):
            return Line(messages.translate(rules.NO_GRANT), remedies=remedies)
        number, address = _("Grant %(number)s") % {"number": grant.id}, grant_address(grant.id)
        if ONLY_OTHERS in codes:  # who they are is no part of the answer
            return Line(self._describe(asked, near[0]), remedies=remedies, pages=((address, number),))
        texts = [self._describe(asked, reason) for reason in near]
        if (provider := self._provider(asked, near)) is not None:
            details = {"provider": provider, "user": asked.username}
            texts.append(_("%(provider)s decides who is in this group. Add %(user)s there.") % details)
        named = NOT_MEMBER not in codes or self._may_name_groups
        pages = ((reverse("admin:catalog_flag_changelist"), _("Flags")),) if self._leads_to_flags(codes) else ()
        return Line(" ".join(texts), messages.translate(grant.rule) if named else number, address, remedies, pages)

    def _leads_to_flags(self, codes: Collection[str]) -> bool:
        return FLAGS in codes and self.viewer.has_perm("catalog.view_flag")

    def _describe(self, asked: Asked, reason: Reason) -> str:
        if reason.code == NOT_MEMBER and not self._may_name_groups:
            return _("%(user)s is not in a group that has access.") % {"user": asked.username}
        return messages.describe_obstacle(reason, user=asked.username, now=self.now, environment=self.environment)

    def _changes(self, asked: Asked, grant: GrantRule, near: Sequence[Reason]) -> tuple[Remedy, ...]:
        found: list[tuple[str, str]] = []
        for reason in near:
            match reason.code:
                case obstacles.LATER:
                    found.append((START, _("Start now")))
                case obstacles.ENDED:
                    days = {"number": EXTENSION_DAYS}
                    text = ngettext("Extend by %(number)s day", "Extend by %(number)s days", EXTENSION_DAYS)
                    found += [(EXTEND, text % days), (REMOVE_END, _("Remove the end"))]
                case obstacles.ELSEWHERE:
                    found.append((APPLY_HERE, _("Also apply in %(environment)s") % {"environment": self.environment}))
                case obstacles.NOT_MEMBER if self._may_join(asked, int(reason.params["id"])):
                    found.append((JOIN, _("Add to the group %(group)s") % {"group": reason.params["name"]}))
        return tuple(Remedy(change, grant.id, label) for change, label in found if self.actionable and self.may(change))

    def _may_join(self, asked: Asked, group_id: int) -> bool:
        managed = (asked.user_id, group_id) in self._managed
        return not managed and group_id not in self._reserved and asked.user_id not in self._above

    def _provider(self, asked: Asked, near: Sequence[Reason]) -> str | None:
        groups = [int(reason.params["id"]) for reason in near if reason.code == NOT_MEMBER]
        return next(
            (self._managed[asked.user_id, key] for key in groups if (asked.user_id, key) in self._managed), None
        )

    def _give(self, asked: Asked) -> tuple[Remedy, ...]:
        if not self.actionable or not self.may(GIVE):
            return ()
        own = asked.user_id == self.viewer.pk
        return (Remedy(GIVE, None, _("Grant it to me") if own else _("Give access")),)


def _is_about_upstream(explanation: Explanation) -> bool:
    return rules.UNPINNED in explanation.obstacles or rules.NOT_AVAILABLE in explanation.obstacles


def grant_link(rule: Rule) -> str:
    """Return the address of the grant that decided; "" for any other rule."""
    return grant_address(rule.params["number"]) if rule.code == GRANT else ""


def grant_address(number: int) -> str:
    """Return the address of the page of a grant."""
    return reverse("admin:catalog_grant_change", args=[number])
