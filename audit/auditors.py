"""The group of auditors: users with read access to the audit log and nothing else."""

from __future__ import annotations

from typing import Any

from django.apps import apps as installed
from django.apps.registry import Apps
from django.contrib.auth.management import create_permissions
from django.db import DEFAULT_DB_ALIAS, router

GROUP_NAME = "auditor"
READABLE_MODELS = ("call", "action", "checkpoint", "verification")


def make_group(*, app_config: Any, apps: Apps = installed, using: str = DEFAULT_DB_ALIAS, **options: Any) -> None:
    """Create the group with read access to the audit log after every migration; do not change an existing group."""
    try:
        Group, Permission = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    except LookupError:
        return  # migrated to a state before users exist
    if not router.allow_migrate_model(using, Group) or not _has_tables(app_config, apps):
        return
    create_permissions(app_config, apps=apps, using=using, **{"verbosity": 0, **options})
    group, created = Group.objects.using(using).get_or_create(name=GROUP_NAME)
    if created:
        names = [f"view_{model}" for model in READABLE_MODELS]
        wanted = Permission.objects.using(using).filter(content_type__app_label="audit", codename__in=names)
        group.permissions.add(*wanted)


def _has_tables(app_config: Any, apps: Apps) -> bool:
    try:
        apps.get_model(app_config.label, "Call")
    except LookupError:
        return False  # migrated back to an empty state
    return True
