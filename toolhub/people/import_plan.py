"""What an import of people would do, row by row, and doing it: all or nothing.

The plan is made twice: for the preview, and again before anything is written. Both must be the same.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models.functions import Lower
from django.utils.translation import gettext as _

from audit.actions import log
from toolhub.access import privileges
from toolhub.people import invitations
from toolhub.people.import_file import EMAIL, FIRST_NAME, GROUPS, LAST_NAME, USERNAME, Row
from toolhub.people.invitations import Made, Person

NEW, CHANGED, SAME, WRONG = "new", "changed", "same", "wrong"
MAY_CHANGE = "auth.change_user"
MAX_SUGGESTED = 3
BATCH_ROWS = 500


class StalePlan(Exception):
    """Something changed since the preview, so nothing was written."""


@dataclass(slots=True)
class Decision:
    """What becomes of one row."""

    row: Row
    state: str = NEW
    """NEW: is invited. CHANGED: an account gets groups. SAME: an account that has them. WRONG: see `problems`."""
    problems: list[tuple[str, str]] = field(default_factory=list)
    """The column ("" for the row) and a sentence for each thing that is wrong."""
    user: User | None = None
    groups: list[Group] = field(default_factory=list)
    """The groups that the person gets and does not have."""
    ignored: list[str] = field(default_factory=list)
    """Columns that differ from an existing account, and stay as they are there."""


@dataclass(frozen=True, slots=True)
class Plan:
    decisions: list[Decision]
    days: int

    @property
    def counts(self) -> Counter[str]:
        """Return the number of rows by state."""
        return Counter(decision.state for decision in self.decisions)

    @property
    def can_run(self) -> bool:
        """Return whether no row is wrong, and at least one does something."""
        counts = self.counts
        return not counts[WRONG] and bool(counts[NEW] or counts[CHANGED])

    @property
    def digest(self) -> str:
        """Return a digest of everything that the import would do."""
        facts = [
            (
                *(one.row.line, one.row.username, one.row.email, one.row.first_name, one.row.last_name),
                *(one.state, one.user.pk if one.user else 0, sorted(group.pk for group in one.groups)),
            )
            for one in self.decisions
        ]
        return hashlib.sha256(json.dumps([self.days, facts]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Outcome:
    made: list[Made]
    changed: int
    """Number of accounts that got groups."""


def build(actor: User, rows: Sequence[Row], days: int) -> Plan:
    """Decide on every row, as the database is now, for this importer."""
    return Plan(_Judge(actor, rows).decide(), days)


def carry_out(actor: User, rows: Sequence[Row], days: int, digest: str) -> Outcome:
    """Do what the plan with this digest says, completely. Raises StalePlan when it would be another one now."""
    with transaction.atomic():
        plan = build(actor, rows, days)
        if plan.digest != digest or not plan.can_run:
            raise StalePlan
        made, changed = [], 0
        for one in plan.decisions:
            if one.state == NEW:
                row = one.row
                person = Person(row.email, row.username, row.first_name, row.last_name, tuple(one.groups))
                made.append(invitations.invite(actor, person, days=days))
            elif one.state == CHANGED and one.user is not None:
                one.user.groups.add(*one.groups)
                changed += 1
        log.record("imported", "people", f"{len(made)} + {changed}", None, {"invited": len(made), "changed": changed})
    return Outcome(made, changed)


class _Judge:
    """Knows what the rows are compared with, read in a few queries."""

    def __init__(self, actor: User, rows: Sequence[Row]) -> None:
        self.actor, self.rows = actor, rows
        self.groups = {group.name: group for group in Group.objects.order_by("name")}
        self.folded = {name.casefold(): name for name in self.groups}
        named = {self.groups[name].pk for row in rows for name in row.groups if name in self.groups}
        self.reserved = {group.pk for group in privileges.find_reserved_groups(actor, named)}
        self.users = _find_users({row.username for row in rows})
        keys = [user.pk for user in self.users.values()]
        self.above = _find_above(actor, keys)
        self.members = _find_members(keys)
        self.taken = invitations.find_taken(row.email for row in rows)
        self.names = Counter(row.username.lower() for row in rows if row.username)
        self.emails = Counter(row.email.lower() for row in rows if row.email)
        self.may_change = actor.has_perm(MAY_CHANGE)

    def decide(self) -> list[Decision]:
        return [self._decide(row) for row in self.rows]

    def _decide(self, row: Row) -> Decision:
        found = Decision(row)
        self._check_cells(found)
        self._check_username(found)
        wanted = self._check_groups(found)
        if found.user is None:
            self._check_email(found)
            found.groups = wanted
        else:
            self._compare(found, found.user, wanted)
        if found.problems:
            found.state = WRONG
        return found

    def _check_cells(self, found: Decision) -> None:
        row = found.row
        if row.surplus:
            found.problems.append(("", _("The row has more cells than the header. Put texts with commas in quotes.")))
        for column, text in ((FIRST_NAME, row.first_name), (LAST_NAME, row.last_name)):
            if len(text) > 150:
                found.problems.append((column, _("Use at most 150 characters.")))
            if any(unicodedata.category(character) in {"Cc", "Cs"} for character in text):
                found.problems.append((column, _("Remove the control characters.")))

    def _check_username(self, found: Decision) -> None:
        name = found.row.username
        if not name:
            found.problems.append((USERNAME, _("Enter a username.")))
            return
        try:
            User._meta.get_field("username").run_validators(name)
        except ValidationError as error:
            found.problems += [(USERNAME, message) for message in error.messages]
            return
        if self.names[name.lower()] > 1:
            found.problems.append((USERNAME, _("The file has this username more than once.")))
        user = self.users.get(name.lower())
        if user is not None and user.get_username() != name:
            other = _("There is an account “%(name)s”. Write the username like this, or choose another.")
            found.problems.append((USERNAME, other % {"name": user.get_username()}))
        else:
            found.user = user

    def _check_email(self, found: Decision) -> None:
        email = found.row.email
        if not email:
            return
        try:
            validate_email(email)
            if len(email) > 254:
                raise ValidationError(_("Use at most %d characters.") % 254)
        except ValidationError as error:
            found.problems += [(EMAIL, message) for message in error.messages]
            return
        if self.emails[email.lower()] > 1:
            found.problems.append((EMAIL, _("The file has this address more than once.")))
        elif problem := self.taken.get(email.lower()):
            found.problems.append((EMAIL, problem))

    def _check_groups(self, found: Decision) -> list[Group]:
        wanted = []
        for name in found.row.groups:
            group = self.groups.get(name)
            if group is None:
                found.problems.append((GROUPS, self._explain_unknown(name)))
            elif group.pk in self.reserved:
                found.problems.append((GROUPS, privileges.groups_refusal([group])))
            else:
                wanted.append(group)
        return wanted

    def _explain_unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name.casefold(), self.folded, n=MAX_SUGGESTED, cutoff=0.6)
        values = {"name": name[:150], "near": ", ".join(f"“{self.folded[one]}”" for one in near)}
        if near:
            return _("There is no group “%(name)s”. Did you mean %(near)s?") % values
        return _("There is no group “%(name)s”. Create it first, or remove it here.") % values

    def _compare(self, found: Decision, user: User, wanted: list[Group]) -> None:
        """Compare the row with the account that it names: only groups are added."""
        row = found.row
        found.groups = [group for group in wanted if group.pk not in self.members.get(user.pk, ())]
        found.state = CHANGED if found.groups else SAME
        stored = {EMAIL: user.email, FIRST_NAME: user.first_name, LAST_NAME: user.last_name}
        given = {EMAIL: row.email, FIRST_NAME: row.first_name, LAST_NAME: row.last_name}
        found.ignored = [column for column, text in given.items() if text and text != stored[column]]
        if not found.groups:
            return
        if user.pk in self.above:
            found.problems.append((USERNAME, privileges.account_refusal(user)))
        elif not self.may_change:
            text = _("You need the permission “Can change user” to add accounts that exist to groups.")
            found.problems.append((GROUPS, text))


def _find_users(names: set[str]) -> dict[str, User]:
    """Return the accounts of these names, in any case, by their name in lower case; an exact match comes first."""
    wanted = sorted({name.lower() for name in names if name})
    found: dict[str, User] = {}
    for start in range(0, len(wanted), BATCH_ROWS):
        rows = User.objects.annotate(lower=Lower("username")).filter(lower__in=wanted[start : start + BATCH_ROWS])
        for user in rows:
            key = user.get_username().lower()
            if key not in found or user.get_username() in names:
                found[key] = user
    return found


def _find_above(actor: User, keys: Sequence[int]) -> set[int]:
    above = privileges.find_users_above(actor)
    return {
        key
        for start in range(0, len(keys), BATCH_ROWS)
        for key in above.filter(pk__in=keys[start : start + BATCH_ROWS]).values_list("pk", flat=True)
    }


def _find_members(keys: Sequence[int]) -> dict[int, set[int]]:
    """Return the groups of each of these accounts."""
    found: dict[int, set[int]] = {}
    through = User.groups.through.objects
    for start in range(0, len(keys), BATCH_ROWS):
        rows = through.filter(user_id__in=keys[start : start + BATCH_ROWS])
        for user_id, group_id in rows.values_list("user_id", "group_id"):
            found.setdefault(user_id, set()).add(group_id)
    return found
