"""Read-only queries of databases that the operator lists."""

from __future__ import annotations

from django.conf import settings as configured
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.runners import hints
from catalog.runners.base import FormWords, Runner
from catalog.runners.sql_query.settings import Settings, not_ready


def _blocked(settings: Settings | None) -> str | None:
    if configured.SQL_DATABASES:
        return None
    return gettext("SQL queries are turned off. Add a database to TOOLHUB_SQL_DATABASES and restart.")


RUNNER = Runner(
    name="sql_query",
    title=_("SQL query"),
    about=_(
        "Runs one read-only statement on a database in TOOLHUB_SQL_DATABASES. Arguments are bound to "
        "its named parameters."
    ),
    settings=Settings,
    prepare="catalog.runners.sql_query.runner.prepare",
    form=FormWords(
        main=("database", "statement"),
        labels={
            "database": _("Database"),
            "statement": _("Statement"),
            "parameters": _("Parameters"),
            "max_rows": _("Max rows"),
            "max_bytes": _("Max bytes"),
            "timeout": _("Timeout"),
            **hints.LABELS,
        },
        choices={"database": lambda: sorted(configured.SQL_DATABASES)},
    ),
    blocked=_blocked,
    not_ready=not_ready,
    position=40,
)
