"""`removefactors USER`: remove every second factor of an account, for somebody who lost theirs."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from toolhub.identity.mfa import factors


class Command(BaseCommand):
    help = "Remove the passkeys, the authenticator app and the recovery codes of a user, who then signs in without."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="the name of the account")

    def handle(self, *args: Any, user: str, **options: Any) -> None:
        found = User.objects.filter(username=user).first()
        if found is None:
            raise CommandError(f"There is no user {user!r}.")
        number = factors.remove_all(found.pk)
        self.stdout.write(f"{number} second factor{'' if number == 1 else 's'} of {user} removed.")
