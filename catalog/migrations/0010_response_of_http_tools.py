from __future__ import annotations

from typing import Any

from django.db import migrations

BATCH_ROWS = 500


def write_default(apps: Any, schema_editor: Any) -> None:
    """Write down the response type of the tools that relied on its default, which was json and is now auto."""
    for name in ("Tool", "HistoricalTool"):
        model = apps.get_model("catalog", name)
        changed = []
        for row in model.objects.filter(runner="http_api").only("settings").iterator(BATCH_ROWS):
            if isinstance(row.settings, dict) and "response" not in row.settings:
                row.settings = {**row.settings, "response": "json"}
                changed.append(row)
            if len(changed) >= BATCH_ROWS:
                model.objects.bulk_update(changed, ["settings"])
                changed = []
        model.objects.bulk_update(changed, ["settings"])


class Migration(migrations.Migration):
    dependencies = [("catalog", "0009_metadata_for_upstreams")]

    operations = [migrations.RunPython(write_default, migrations.RunPython.noop)]
