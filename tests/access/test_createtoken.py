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
