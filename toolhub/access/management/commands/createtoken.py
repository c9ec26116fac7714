"""`createtoken USER`: make an access token and print it, and only it, on stdout."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from toolhub.access.models import DEFAULT_DAYS, MAX_DAYS, AccessToken


class Command(BaseCommand):
    help = "Make an access token for USER and print it, once, on stdout."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="the account whose tools the token reaches")
        parser.add_argument("--name", metavar="N", default="createtoken", help="what the token is for")
        parser.add_argument("--days", type=int, default=DEFAULT_DAYS, help=f"until it expires (default {DEFAULT_DAYS})")

    def handle(self, *args: Any, **options: Any) -> None:
        model = get_user_model()
        name, days = options["name"].strip(), options["days"]
        if not 1 <= days <= MAX_DAYS:
            raise CommandError(f"--days must be between 1 and {MAX_DAYS}; it is {days}.")
        if not name or len(name) > 100:
            raise CommandError("--name must have 1 to 100 characters.")
        try:
            user = model.objects.get_by_natural_key(options["user"])
        except model.DoesNotExist:
            raise CommandError(
                f"There is no user {options['user']!r}. `createsuperuser` or /admin/ makes one."
            ) from None
        if not user.is_active:
            raise CommandError(f"The user {options['user']!r} is not active, so the token would not work.")
        _, text = AccessToken.objects.issue(user, name, days=days)
        self.stdout.write(text)
