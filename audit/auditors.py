"""The group of auditors: users who read the audit log and what it names, and change nothing.

They see no secret: neither shared nor personal values, nor tokens, of which only names and times are stored in clear.
Stored results and tasks of people are not among what they read. Settings of tools are: they can name hosts and queries.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps as installed
from django.apps.registry import Apps
from django.contrib.auth.management import create_permissions
from django.db import DEFAULT_DB_ALIAS, router

GROUP_NAME = "auditor"
READABLE = {
    "audit": ("view_call", "view_action", "view_checkpoint", "view_verification"),
    "auth": ("view_user", "view_group"),
    "access": ("view_accesstoken", "view_connections"),
    "catalog": (
        "view_tool",
        "view_toolset",
        "view_prompt",
        "view_resource",
        "view_grant",
        "view_limit",
        "view_valuelist",
        "view_valuelistpart",
        "view_flag",
        "view_tooltest",
        "view_upstream",
    ),
    "oauth": ("view_connectedapp",),
}
"""Application -> code names of its permissions."""


def make_group(*, app_config: Any, apps: Apps = installed, using: str = DEFAULT_DB_ALIAS, **options: Any) -> None:
    """Create the group of auditors after every migration; do not change an existing group."""
    try:
        Group, Permission = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    except LookupError:
        return  # migrated to a state before users exist
    if not router.allow_migrate_model(using, Group) or not _has_tables(app_config, apps):
        return
    group, created = Group.objects.using(using).get_or_create(name=GROUP_NAME)
    if not created:
        return
    for label, names in READABLE.items():
        # Their own signals may come later.
        create_permissions(installed.get_app_config(label), apps=apps, using=using, **{**options, "verbosity": 0})
        wanted = Permission.objects.using(using).filter(content_type__app_label=label, codename__in=names)
        group.permissions.add(*wanted)


def _has_tables(app_config: Any, apps: Apps) -> bool:
    try:
        apps.get_model(app_config.label, "Call")
    except LookupError:
        return False  # migrated back to an empty state
    return True
