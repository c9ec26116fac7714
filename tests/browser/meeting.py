"""A tool module that lets a change meet another one: whoever saves the tool `met` finds that its name is taken."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import pre_save
from django.dispatch import receiver

from catalog.models import Tool

MET, TAKEN = "met", "taken"


@receiver(pre_save, sender=Tool, dispatch_uid="tests.browser.meeting")
def meet(instance: Tool, **_: Any) -> None:
    if instance.name == MET and not instance._state.adding:
        Tool.objects.filter(pk=instance.pk).update(name=TAKEN)


def seed() -> dict[str, Any]:
    """The users, and both tools."""
    from tests import factories
    from tests.browser.seed import seed_users

    factories.make_tool(TAKEN)
    return {**seed_users(), MET: factories.make_tool(MET).pk}


def add_upstream(url: str, name: str) -> int:
    from catalog.models import Upstream

    return int(Upstream.objects.create(name=name, prefix=name, url=url, allowed_networks=["127.0.0.0/8"]).pk)
