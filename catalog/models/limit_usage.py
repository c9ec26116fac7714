"""What quotas have counted: one row for each counter and period, changed by one conditional statement at a time."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from catalog.models.rules import Limit


def name_counter(measure: str, period: str, subject: str = "") -> str:
    """Return the name of a counter; without a subject, the beginning of the names of all."""
    return f"{measure} {period} {subject}"


class LimitUsage(models.Model):
    """What was used of a quota in one period, by a user, a group together, or everyone together."""

    limit = models.ForeignKey(Limit, models.CASCADE, verbose_name=_("limit"), related_name="usage", db_constraint=False)
    """Without a constraint: a call that counts while its limit is deleted must hold up neither."""
    counter = models.CharField(_("counter"), max_length=60)
    """What is counted and for whom: "calls day user 5", "cost month group 3", "cost month everyone"."""
    starts = models.DateTimeField(_("starts"))
    ends = models.DateTimeField(_("ends"))
    used = models.PositiveBigIntegerField(_("used"), default=0)

    class Meta:
        verbose_name = _("used part of a quota")
        verbose_name_plural = _("used parts of quotas")
        constraints = [models.UniqueConstraint(fields=["limit", "counter", "starts"], name="one_usage_of_each_period")]
        indexes = [models.Index(fields=["ends"], name="limit_usage_by_end")]

    def __str__(self) -> str:
        return f"{self.counter}: {self.used}"

    @property
    def subject(self) -> str:
        """Who it counts for: "user 5", "group 3" or "everyone"."""
        return self.counter.split(" ", 2)[2]
