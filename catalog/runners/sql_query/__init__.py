"""Read-only queries of databases that the operator lists."""

from __future__ import annotations

from django.conf import settings as configured
from django.utils.translation import gettext_lazy as _

from catalog.runners.base import FormWords, Runner
from catalog.runners.sql_query.settings import Settings, not_ready

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
        choices={"database": lambda: sorted(configured.SQL_DATABASES)},
    ),
    not_ready=not_ready,
    position=40,
)
