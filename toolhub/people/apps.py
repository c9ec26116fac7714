from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class PeopleConfig(AppConfig):
    name = "toolhub.people"
    label = "people"
    verbose_name = _("People")

    def ready(self) -> None:
        from audit.actions.model_signals import watch
        from toolhub.people import answers, entered_emails
        from toolhub.people.models import Invitation

        answers.connect()
        entered_emails.connect()
        ignored = ("salt", "digest", "language", "mailed", "mail_problem")
        watch(Invitation, kind="invitation", ignore=ignored, many_to_many_names=("groups",))
