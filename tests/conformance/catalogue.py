"""What the server under test holds: the fixtures, for one user with a real token. Run inside it by `Hub.call`."""

from __future__ import annotations


def fill() -> str:
    """The token."""
    from django.contrib.auth.models import User

    from tests.conformance import fixtures
    from toolhub.access.models import AccessToken

    user = User.objects.create_user("conformance")
    fixtures.load(user.username)
    return AccessToken.objects.issue(user, "conformance suite", days=1)[1]
