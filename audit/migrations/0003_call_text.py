"""The searchable text of calls, and saved views that keep their meaning: `*` now stands for any text."""

import json

from django.db import migrations, models


def mark_partial_names(apps, schema_editor):
    """Write `*name*` where a client or credential was found by a part of its name until now."""
    for view in apps.get_model("audit", "SavedView").objects.all():
        try:
            filters = json.loads(view.filters)
        except (ValueError, RecursionError):
            continue
        if not isinstance(filters, dict):
            continue
        for name in ("client", "credential"):
            value = filters.get(name)
            if isinstance(value, str) and value and "*" not in value and ":" not in value:
                filters[name] = f"*{value}*"
        view.filters = json.dumps(filters)
        view.save(update_fields=["filters"])


class Migration(migrations.Migration):

    dependencies = [
        ("audit", "0002_keyed_digests"),
    ]

    operations = [
        migrations.CreateModel(
            name="CallText",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="id")),
                ("call_id", models.UUIDField(unique=True, verbose_name="call")),
                ("text", models.TextField(verbose_name="text")),
            ],
            options={
                "verbose_name": "text of a call",
                "verbose_name_plural": "texts of calls",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="TextProgress",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False, verbose_name="id")),
                ("through", models.UUIDField(verbose_name="newest call indexed")),
                ("open", models.TextField(verbose_name="open")),
            ],
            options={
                "verbose_name": "progress of the text index",
                "verbose_name_plural": "progress of the text index",
                "default_permissions": (),
            },
        ),
        migrations.RunPython(mark_partial_names, migrations.RunPython.noop),
    ]
