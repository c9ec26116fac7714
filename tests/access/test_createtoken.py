"""The command prints the token and nothing else; what goes wrong is said on stderr."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command

from toolhub.access.models import AccessToken, digest_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], "no user 'nobody'"),
        (["alice", "--days", "0"], "--days must be between 1 and"),
        (["alice", "--days", "99999"], "--days must be between 1 and"),
        (["alice", "--name", " "], "--name must have"),
        (["alice", "--name", "x" * 101], "--name must have"),
        (["alice", "--name", "a\x07b"], "--name: Use visible characters"),
        (["alice", "--keep-hours", "1"], "--keep-hours needs --rotate"),
        (["alice", "--rotate", "1"], "no token with the id 1"),
        (["alice", "--rotate", "9" * 30], "no token with the id 9"),
    ],
)
def test_a_wrong_argument_is_named_and_no_token_is_created(alice: User, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        call_command("createtoken", *arguments)
    assert not AccessToken.objects.exists()


def test_an_inactive_account_gets_no_token(alice: User) -> None:
    alice.is_active = False
    alice.save()
    with pytest.raises(CommandError, match="not active"):
        call_command("createtoken", "alice")


def test_only_the_token_is_printed_and_only_its_digest_is_kept(alice: User, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("createtoken", "alice", "--name", "build machine", "--days", "7")
    printed = capsys.readouterr()
    assert printed.err == ""
    assert re.fullmatch(r"thp_[A-Za-z0-9_-]{43}\n", printed.out)
    token = AccessToken.objects.get()
    assert token.digest == digest_of(printed.out.strip())
    assert (token.name, token.user, (token.expires - token.created).days) == ("build machine", alice, 7)
    stored = " ".join(str(value) for value in AccessToken.objects.values().get().values())
    assert printed.out.strip() not in stored
    assert printed.out[8:20] not in stored


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--name", "x"], "leave out --name and --days"),
        (["--days", "90"], "leave out --name and --days"),
        (["--keep-hours", "-1"], "--keep-hours must be between 0 and 168"),
        (["--keep-hours", "169"], "--keep-hours must be between 0 and 168"),
    ],
)
def test_a_wrong_argument_of_a_rotation_is_named_and_nothing_changes(alice: User, more: list[str], said: str) -> None:
    token, _text = AccessToken.objects.issue(alice, "build machine")
    before = list(AccessToken.objects.values())
    with pytest.raises(CommandError, match=said):
        call_command("createtoken", "alice", "--rotate", str(token.pk), *more)
    assert list(AccessToken.objects.values()) == before


def test_a_token_of_another_user_is_not_rotated(alice: User, bob: User) -> None:
    token, _text = AccessToken.objects.issue(bob, "build machine")
    with pytest.raises(CommandError, match=f"'alice' has no token with the id {token.pk}"):
        call_command("createtoken", "alice", "--rotate", str(token.pk))
    assert AccessToken.objects.count() == 1


@pytest.mark.parametrize("made_by_owner", [True, False])
def test_a_rotation_prints_only_the_new_token_and_widens_nothing(
    alice: User, capsys: pytest.CaptureFixture[str], made_by_owner: bool
) -> None:
    token, _text = AccessToken.objects.issue(alice, "build machine", days=7, made_by_owner=made_by_owner)
    call_command("createtoken", "alice", "--rotate", str(token.pk), "--keep-hours", "0")
    printed = capsys.readouterr()
    assert printed.err == ""
    assert re.fullmatch(r"thp_[A-Za-z0-9_-]{43}\n", printed.out)
    successor = AccessToken.objects.get(replaces=token)
    assert successor.digest == digest_of(printed.out.strip())
    assert (successor.name, successor.made_by_owner) == ("build machine", made_by_owner)
    assert (successor.expires - successor.created).days == 7
    token.refresh_from_db()
    assert token.revoked is not None
    with pytest.raises(CommandError, match="already rotated"):
        call_command("createtoken", "alice", "--rotate", str(token.pk))
