"""`createtoken USER`: create an access token and print only the token on stdout."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from toolhub.access.models import DEFAULT_DAYS, MAX_DAYS, AccessToken


class Command(BaseCommand):
    help = "Create an access token for USER and print only the token on stdout. It is shown only once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="the user whose tools the token can use")
        parser.add_argument(
            "--name", metavar="N", default="createtoken", help="the name of the token, such as its client"
        )
        parser.add_argument(
            "--days", type=int, default=DEFAULT_DAYS, help=f"days until the token expires (default: {DEFAULT_DAYS})"
        )

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
                f"There is no user {options['user']!r}. Create one with `createsuperuser` or in /admin/."
            ) from None
        if not user.is_active:
            raise CommandError(f"The user {options['user']!r} is not active. Activate the user in /admin/ first.")
        _, text = AccessToken.objects.issue(user, name, days=days)
        self.stdout.write(text)
