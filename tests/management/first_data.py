"""What is in a database before and after a first run. Run beside it by `Hub.call`."""

from __future__ import annotations

import io


def list_accounts() -> list[str]:
    from django.contrib.auth.models import User

    return sorted(User.objects.values_list("username", flat=True))


def add_account() -> None:
    from django.contrib.auth.models import User

    User.objects.create_user("alice")


def add_tool() -> None:
    from tests import factories

    factories.make_tool("hers")


def remove_demo_user() -> None:
    from django.contrib.auth.models import User

    User.objects.filter(username="demo").delete()


def export() -> str:
    from django.core.management import call_command

    written = io.StringIO()
    call_command("exporttools", stdout=written)
    return written.getvalue()
