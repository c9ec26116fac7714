"""Questions of this application to others that it must not import; `toolhub.composition` answers them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.http import HttpRequest

from toolhub.access.kinds import CredentialKind
from toolhub.parts import parts


def _no_toolsets(user_id: int) -> frozenset[int]:
    return frozenset()


def _no_access(user_id: int) -> bool:
    return False


def _no_groups(group_ids: frozenset[int]) -> frozenset[int]:
    return frozenset()


def _no_loss(group_ids: Collection[int], viewer: Any) -> str:
    return ""


def _no_difference(user_id: int, other_id: int) -> bool:
    return False


def _nothing_managed(user_ids: frozenset[int], group_ids: frozenset[int]) -> dict[tuple[int, int], str]:
    return {}


def _revoke_nothing(user_id: int) -> None:
    return


def _no_second_step(request: HttpRequest, user: User, target: str) -> str | None:
    return None


def _no_cancellation(call_id: UUID, username: str) -> None:
    return


@dataclass(frozen=True, slots=True)
class SignInWay:
    """A way to sign in beside a password: its name, and the address (without `next`) that leads there."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class LinkedIdentity:
    """An identity with which a person can sign in."""

    provider: str
    label: str
    last_used: datetime | None
    unlink_address: str
    """Where a POST removes it; "" if the person may not."""


@dataclass(frozen=True, slots=True)
class SignInOptions:
    """The ways of one person: the identities they have, and (name, address of a POST) of those they can link."""

    identities: tuple[LinkedIdentity, ...] = ()
    linkable: tuple[SignInWay, ...] = ()


def _no_ways() -> tuple[SignInWay, ...]:
    return ()


def _no_options(user_id: int) -> SignInOptions:
    return SignInOptions()


class AssertionRefused(Exception):
    """An error for an identity assertion that is not accepted.

    `code` is one of: size, format, type, algorithm, issuer, unlisted (the provider does not list the client), provider
    (it cannot be asked for its keys now), invalid (the signature, or a claim), time, lifetime, audience, or claim, with
    the name of that in `claim`.
    """

    def __init__(self, code: str, claim: str = "") -> None:
        super().__init__(f"{code}: {claim}" if claim else code)
        self.code, self.claim = code, claim


@dataclass(frozen=True, slots=True)
class Assertion:
    """An identity provider's assertion about a person for a client, verified (an ID-JAG).

    Its signature, issuer, audience, times and `jti` are right. Whoever asked has to check the other claims.
    """

    claims: Mapping[str, Any]
    provider: str
    """The name of the provider."""
    actor: str
    """The name under which the audit log has what follows from it."""
    identity: int | None
    """Primary key of the identity that it is about; None: nobody has it, or nobody can sign in with it now."""
    user_id: int | None
    """The owner of that identity."""


def _no_assertion(text: str, client: int) -> Assertion:
    raise AssertionRefused("issuer")


def _no_accepted(pairs: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    return set()


def _not_accepted() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Hooks:
    """The functions that the catalogue and the server provide for accounts and tokens."""

    cancel_call: Callable[[UUID, str], None] = _no_cancellation
    """Cancel a running call in any worker; the log says that this user did it. Success is not guaranteed."""
    has_any_access: Callable[[int], bool] = _no_access
    """Whether a client of this user would find any tool, resource or prompt."""
    has_personal_secrets: Callable[[int], bool] = _no_access
    """Whether this user has entered personal secrets."""
    reaches_more: Callable[[int, int], bool] = _no_difference
    """Whether the first user is granted something that the second is not, or the second is denied more."""
    groups_with_access: Callable[[frozenset[int]], frozenset[int]] = _no_groups
    """Those of the groups (primary keys) that have grants or limits."""
    group_losses: Callable[[Collection[int], Any], str] = _no_loss
    """A sentence about what is lost without these groups (primary keys), for the user who would delete them."""
    approves_more: Callable[[int, int], bool] = _no_difference
    """Whether the first user can approve calls that the second cannot."""
    approving_groups: Callable[[frozenset[int]], frozenset[int]] = _no_groups
    """Those of the groups (primary keys) whose members approve calls."""
    managed_memberships: Callable[[frozenset[int], frozenset[int]], dict[tuple[int, int], str]] = _nothing_managed
    """Those pairs of a user and a group (primary keys) where an identity provider decides whether the user is a member,
    with the name of the provider.
    """
    toolsets_for: Callable[[int], frozenset[int]] = _no_toolsets
    """The toolsets (primary keys) in which this user may use something: the choices for restricting their tokens."""
    credential_kinds: tuple[CredentialKind, ...] = ()
    """Kinds of credentials beside personal access tokens."""
    has_connected_app: Callable[[int], bool] = _no_access
    """Whether this user has connected an app that may still be used."""
    second_step: Callable[[HttpRequest, User, str], str | None] = _no_second_step
    """Where this person, whose password was right, proves a second factor before a session begins; None: nowhere.

    The text is the page that was wanted, or "".
    """
    revoke_apps: Callable[[int], None] = _revoke_nothing
    """Revoke every connected app of this user."""
    has_identity: Callable[[int], bool] = _no_access
    """Whether this user signs in with an identity provider."""
    sign_in_ways: Callable[[], tuple[SignInWay, ...]] = _no_ways
    """The ways to sign in beside a password."""
    sign_in_options: Callable[[int], SignInOptions] = _no_options
    """The identities of this user, and those they can link."""
    accepts_assertions: Callable[[], bool] = _not_accepted
    """Whether any identity provider may assert people to clients (ID-JAG)."""
    verify_assertion: Callable[[str, int], Assertion] = _no_assertion
    """Verify the assertion that a client (primary key) sent. Raises AssertionRefused."""
    filter_accepted: Callable[[Collection[tuple[int, int]]], set[tuple[int, int]]] = _no_accepted
    """Those of the pairs (identity, client) of which a new assertion would be accepted now."""
    user_inlines: tuple[Any, ...] = ()
    """The inlines of other applications on the page of an account."""
    group_inlines: tuple[Any, ...] = ()
    """The inlines of other applications on the page of a group."""


_NO_HOOKS = Hooks()


def installed() -> Hooks:
    """Return the functions that `toolhub.composition` installed; without it, there is no catalogue and nothing runs."""
    return parts.find(Hooks) or _NO_HOOKS
