"""`createtoken USER`: create or rotate an access token and print only the new token on stdout."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from toolhub.access import rotation
from toolhub.access.models import DEFAULT_DAYS, MAX_DAYS, MAX_NAME_CHARACTERS, AccessToken, check_name

DEFAULT_NAME = "createtoken"


class Command(BaseCommand):
    help = "Create an access token for USER, or rotate one, and print only the new token. It is shown only once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="the user whose tools the token can use")
        parser.add_argument("--name", metavar="N", help="the name of the token, such as its client")
        parser.add_argument("--days", type=int, help=f"days until the token expires (default: {DEFAULT_DAYS})")
        parser.add_argument(
            "--rotate", type=int, metavar="ID", help="replace this token: with its name, toolsets and validity in days"
        )
        parser.add_argument(
            "--keep-hours",
            type=int,
            metavar="N",
            help=f"hours for which the replaced token works on (default: {rotation.DEFAULT_KEEP_HOURS}; 0: none)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        user = self._find_user(options["user"])
        text = self._create(user, options) if options["rotate"] is None else self._rotate(user, options)
        self.stdout.write(text)

    def _find_user(self, username: str) -> Any:
        model = get_user_model()
        try:
            user = model.objects.get_by_natural_key(username)
        except model.DoesNotExist:
            raise CommandError(
                f"There is no user {username!r}. Create one with `createsuperuser` or in /admin/."
            ) from None
        if not user.is_active:
            raise CommandError(f"The user {username!r} is not active. Activate the user in /admin/ first.")
        return user

    def _create(self, user: Any, options: dict[str, Any]) -> str:
        if options["keep_hours"] is not None:
            raise CommandError("--keep-hours needs --rotate ID.")
        name = (DEFAULT_NAME if options["name"] is None else options["name"]).strip()
        days = DEFAULT_DAYS if options["days"] is None else options["days"]
        if not 1 <= days <= MAX_DAYS:
            raise CommandError(f"--days must be between 1 and {MAX_DAYS}; it is {days}.")
        if not name or len(name) > MAX_NAME_CHARACTERS:
            raise CommandError(f"--name must have 1 to {MAX_NAME_CHARACTERS} characters.")
        try:
            check_name(name)
        except ValidationError as error:
            raise CommandError(f"--name: {error.messages[0]}") from None
        return AccessToken.objects.issue(user, name, days=days)[1]

    def _rotate(self, user: Any, options: dict[str, Any]) -> str:
        if options["name"] is not None or options["days"] is not None:
            raise CommandError("--rotate keeps the name and the validity of the token: leave out --name and --days.")
        hours = rotation.DEFAULT_KEEP_HOURS if options["keep_hours"] is None else options["keep_hours"]
        if not 0 <= hours <= rotation.MAX_KEEP_HOURS:
            raise CommandError(f"--keep-hours must be between 0 and {rotation.MAX_KEEP_HOURS}; it is {hours}.")
        try:
            return rotation.rotate(AccessToken.objects.filter(user=user), options["rotate"], keep_hours=hours).text
        except (AccessToken.DoesNotExist, OverflowError):
            raise CommandError(
                f"The user {user.get_username()!r} has no token with the id {options['rotate']}."
            ) from None
        except rotation.RotationRefused as refused:
            raise CommandError(rotation.explain(refused)) from None
