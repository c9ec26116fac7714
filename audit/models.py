"""Models of the audit log: calls, admin activity, and the hash chain that shows changes to either.

Rows are written by the recorder, in its own SQL statements, and read through these models. No foreign key to another
table has a constraint: deleting a user does not change the calls. Times are whole milliseconds, so that SQLite and
PostgreSQL return the same value and the hash chain verifies on both.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext, gettext_noop
from django.utils.translation import gettext_lazy as _

from audit import local_time, outcomes

TRIAL_NOTES = '"trials":[['
"""Text in the rule code of the calls that a rule in trial would have decided otherwise; text of clients is escaped."""


class Call(models.Model):
    """One attempt to use a tool, prompt or resource, and its status."""

    id = models.UUIDField(_("id"), primary_key=True)
    """UUIDv7: order by id is order by time."""
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        on_delete=models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    username = models.CharField(_("username"), max_length=150)
    credential_id = models.CharField(_("credential id"), max_length=64)
    credential = models.CharField(_("credential"), max_length=200)
    """The token's name at the time."""
    client_name = models.CharField(_("client name"), max_length=200)
    client_version = models.CharField(_("client version"), max_length=100)
    transport = models.CharField(_("transport"), max_length=16)
    revision = models.CharField(_("protocol version"), max_length=16)
    address = models.CharField(_("address"), max_length=64)
    method = models.CharField(_("method"), max_length=64)
    name = models.CharField(_("name"), max_length=500)
    """Name of the tool, prompt or resource as the client requested it."""
    target_id = models.BigIntegerField(_("target id"), null=True)
    definition = models.CharField(_("definition"), max_length=64)
    """Hash of the definition that was in force."""
    rule = models.CharField(_("rule"), max_length=500)
    """Rule that decided, in English."""
    rule_reason = models.TextField(_("rule code"))
    """Rule that decided, as code and parameters: canonical JSON."""
    request_id = models.CharField(_("request id"), max_length=200)
    arguments = models.TextField(_("arguments"))
    outcome = models.CharField(_("status"), max_length=20, choices=outcomes.CHOICES)
    error_class = models.CharField(_("error class"), max_length=200)
    detail = models.TextField(_("detail"))
    detail_reason = models.TextField(_("detail code"))
    """The detail as code and parameters: canonical JSON; empty for text that comes from a tool or a client."""
    result = models.TextField(_("result"))
    result_bytes = models.BigIntegerField(_("result bytes"))
    result_sha256 = models.CharField(_("result sha256"), max_length=64)
    started_at = models.DateTimeField(_("started at"))
    ended_at = models.DateTimeField(_("ended at"), null=True)
    duration_us = models.BigIntegerField(_("duration (µs)"), null=True)
    writer = models.BigIntegerField(_("writer"))
    """Number of the writer that logged the start."""
    link = models.BigIntegerField(_("link"))
    """Hash chain entry of the start; `end_link` is that of the end."""
    end_link = models.BigIntegerField(_("end link"), null=True)
    body_state = models.CharField(_("body state"), max_length=10, choices=(("", "kept"), ("pruned", "pruned")))
    """`pruned`: arguments and result were replaced by `pruned:sha256:...`, which the hash chain still verifies."""

    class Meta:
        verbose_name = _("call")
        verbose_name_plural = _("calls")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("user", "id"), name="audit_call_user"),
            models.Index(fields=("outcome", "id"), name="audit_call_outcome"),
            models.Index(fields=("name", "id"), name="audit_call_name"),
            models.Index(fields=("user", "outcome", "id"), name="audit_call_user_outcome"),
            models.Index(
                fields=("id",), condition=models.Q(rule_reason__contains=TRIAL_NOTES), name="audit_call_trials"
            ),
        )
        permissions = (
            ("cancel_call", gettext_noop("Can cancel running calls")),
            ("make_casefile", gettext_noop("Can make case files of the audit log")),
        )

    def __str__(self) -> str:
        return f"{self.name} by {self.username}: {self.outcome}"


class Action(models.Model):
    """One change by an administrator: actor, operation and target, with the values before and after."""

    id = models.UUIDField(_("id"), primary_key=True)
    at = models.DateTimeField(_("at"))
    actor = models.CharField(_("actor"), max_length=200)
    verb = models.CharField(_("operation"), max_length=64)
    kind = models.CharField(_("kind"), max_length=64)
    """Kind of the target, such as `tool`."""
    target = models.CharField(_("target"), max_length=500)
    before = models.TextField(_("before"))
    after = models.TextField(_("after"))
    """JSON objects without secrets; empty when there is no state before or after."""
    link = models.BigIntegerField(_("link"))

    class Meta:
        verbose_name = _("admin change")
        verbose_name_plural = _("admin activity")
        ordering = ("-id",)
        indexes = (models.Index(fields=("kind", "target", "id"), name="audit_action_target"),)

    def __str__(self) -> str:
        return f"{self.actor}: {self.verb} {self.kind} {self.target}"


class Writer(models.Model):
    """A hash chain and the process that extends it. Its heartbeat is the lease on the calls that it started."""

    id = models.BigIntegerField(_("id"), primary_key=True)
    host = models.CharField(_("host"), max_length=200)
    """The machine, its boot and the process namespace: the scope of `pid`. Empty for the chains of admin activity."""
    pid = models.BigIntegerField(_("pid"))
    born = models.BigIntegerField(_("born"))
    """Start of the process in the kernel's clock ticks: tells it from a later process with the same pid."""
    started = models.DateTimeField(_("started"))
    heartbeat = models.DateTimeField(_("heartbeat"))
    ended = models.DateTimeField(_("expired"), null=True)
    covered = models.BigIntegerField(_("covered"))
    """Last sequence that a checkpoint signed."""
    sealed = models.BooleanField(_("sealed"))
    """Whether its process ended it and a checkpoint signed its last link: later checkpoints can skip it."""
    covered_mac = models.CharField(_("keyed digest of the coverage"), max_length=32, default="", db_default="")
    """Keyed digest of `covered` and `sealed`, which decide what the next checkpoint signs. Empty: never covered."""

    class Meta:
        verbose_name = _("writer")
        verbose_name_plural = _("writers")
        ordering = ("id",)

    def __str__(self) -> str:
        return f"writer {self.id}"


class Link(models.Model):
    """One hash chain entry: `hash` covers (writer, sequence, the previous link's hash, kind, subject, content)."""

    id = models.BigIntegerField(_("id"), primary_key=True)
    """writer * 2**40 + sequence: one index makes the pair unique and gives the order of the chain."""
    writer = models.BigIntegerField(_("writer"))
    sequence = models.BigIntegerField(_("sequence"))
    kind = models.CharField(_("kind"), max_length=12)
    subject = models.CharField(_("subject"), max_length=36)
    """Id of the call or action, as 32 hexadecimal digits."""
    content = models.CharField(_("content"), max_length=64)
    """SHA-256 of the canonical bytes of the logged values."""
    hash = models.CharField(_("hash"), max_length=64)
    mac = models.CharField(_("keyed digest"), max_length=32, default="", db_default="")
    """Keyed digest of the hash, in the last link of each transaction: proof that this installation wrote it."""

    class Meta:
        verbose_name = _("link")
        verbose_name_plural = _("hash chain entries")
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.kind} {self.writer}:{self.sequence}"


class Checkpoint(models.Model):
    """A signature over the heads of all hash chains that grew since the previous checkpoint."""

    number = models.BigIntegerField(_("number"), primary_key=True)
    at = models.DateTimeField(_("at"))
    heads = models.TextField(_("heads"))
    """JSON: writer -> [sequence, hash]."""
    previous = models.CharField(_("previous"), max_length=64)
    hash = models.CharField(_("hash"), max_length=64)
    key = models.CharField(_("key"), max_length=16)
    signature = models.CharField(_("signature"), max_length=128)

    class Meta:
        verbose_name = _("checkpoint")
        verbose_name_plural = _("checkpoints")
        ordering = ("-number",)
        indexes = (models.Index(fields=("at",), name="audit_checkpoint_at"),)

    def __str__(self) -> str:
        return gettext("Checkpoint %(number)s") % {"number": self.number}


class Verification(models.Model):
    """Result of a verification of the audit log."""

    id = models.UUIDField(_("id"), primary_key=True)
    at = models.DateTimeField(_("at"))
    ok = models.BooleanField(_("passed"))
    through = models.CharField(_("newest call checked"), max_length=64)
    """Newest call that was verified."""
    problem = models.TextField(_("problem"))
    """First bad entry and its problem, in English; empty when no problem was found."""
    problem_reason = models.TextField(_("problem code"), default="")
    """The problem as code and parameters: canonical JSON."""
    links = models.BigIntegerField(_("hash chain entries"))
    outside_head = models.BooleanField(_("external checkpoint"))
    """Whether an external checkpoint was compared: without one, deleting the newest entries can go unnoticed."""
    uncovered = models.BigIntegerField(_("entries not yet covered"), default=0, db_default=0)
    """Hash chain entries that no checkpoint covers yet. They count among `links`."""
    checkpoint = models.BigIntegerField(_("checkpoint"), null=True)
    """Newest checkpoint that was verified."""
    mac = models.CharField(_("keyed digest"), max_length=32, default="", db_default="")
    """Keyed digest of the other columns: a result that was inserted or edited with SQL is not believed."""

    class Meta:
        verbose_name = _("verification")
        verbose_name_plural = _("verifications")
        ordering = ("-id",)

    def __str__(self) -> str:
        return local_time.format_time_with_zone(self.at)


class WholeBody(models.Model):
    """The whole text of results that are longer than the part in their calls: compressed, one row for equal texts.

    It is no part of the hash chain: its SHA-256 must be the one that the chain covers in each call.
    """

    digest = models.CharField(_("result sha256"), max_length=64, primary_key=True)
    """SHA-256 of the text, as in `Call.result_sha256`."""
    size = models.BigIntegerField(_("size"))
    """Bytes of the text."""
    stored = models.BigIntegerField(_("stored size"))
    """Bytes of `data`."""
    data = models.BinaryField(_("data"))
    """The text, compressed with zlib."""

    class Meta:
        verbose_name = _("whole body")
        verbose_name_plural = _("whole bodies")
        ordering = ("digest",)
        default_permissions = ()

    def __str__(self) -> str:
        return self.digest


class WholeBodyUse(models.Model):
    """One call whose whole result is kept. The text goes with the last of its calls."""

    call_id = models.UUIDField(_("id"), primary_key=True)
    digest = models.CharField(_("result sha256"), max_length=64, db_index=True)

    class Meta:
        verbose_name = _("use of a whole body")
        verbose_name_plural = _("uses of whole bodies")
        ordering = ("call_id",)
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.call_id}: {self.digest}"


class SavedView(models.Model):
    """A named filter of the list of calls. It is a convenience and no part of the audit log."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name=_("owner"), on_delete=models.CASCADE, related_name="+"
    )
    name = models.CharField(_("name"), max_length=80)
    filters = models.TextField(_("filters"))
    """JSON object of the parameters that `search.CallSearch` reads from a URL."""
    shared = models.BooleanField(_("shared with everyone who can read the audit log"), default=False)

    class Meta:
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")
        ordering = ("name", "id")
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("owner", "name"), name="audit_savedview_name"),)

    def __str__(self) -> str:
        return self.name


class Rollup(models.Model):
    """Number of calls that started within an hour or a day: counted once from the audit log, and no part of it."""

    span = models.CharField(_("span"), max_length=1)
    """`h`: hour; `d`: day (UTC)."""
    at = models.DateTimeField(_("at"))
    """Start of the span."""
    what = models.CharField(_("subject"), max_length=8)
    """Meaning of `key`: an `outcome`, a `tool`, a `user`, or the duration that calls `took` (see `rollups`)."""
    key = models.CharField(_("key"), max_length=500)
    calls = models.BigIntegerField(_("calls"))
    failed = models.BigIntegerField(_("failed"))
    """Number of these calls whose outcome is not `ok`; see `rollups`."""

    class Meta:
        verbose_name = _("rollup")
        verbose_name_plural = _("rollups")
        ordering = ("id",)
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("span", "what", "at", "key"), name="audit_rollup_cell"),)

    def __str__(self) -> str:
        return f"{self.span} {self.at} {self.what} {self.key}: {self.calls}"


class RollupProgress(models.Model):
    """Progress of the rollups: one row, changed only by the process that counted the next calls."""

    id = models.SmallIntegerField(_("id"), primary_key=True)
    through = models.UUIDField(_("newest call counted"))
    """Calls with smaller ids are counted, except those in `open`."""
    open = models.TextField(_("open"))
    """JSON: ids of the calls that were still running; they are counted after they end."""

    class Meta:
        verbose_name = _("rollup progress")
        verbose_name_plural = _("rollup progress")
        default_permissions = ()

    def __str__(self) -> str:
        return f"counted through {self.through}"


class TextProgress(models.Model):
    """Progress of the text index: one row, changed only by the process that indexed the next calls."""

    id = models.SmallIntegerField(_("id"), primary_key=True)
    through = models.UUIDField(_("newest call indexed"))
    """Calls with smaller ids are indexed, except those in `open`."""
    open = models.TextField(_("open"))
    """JSON: ids of the calls that were still running; they are indexed after they end."""
    removal = models.CharField(_("removal"), max_length=8, blank=True, default="")
    """With SQLite: "due" when text was removed, "run 7" while the index is merged into its part 7; empty: no
    removed text is left."""

    class Meta:
        verbose_name = _("progress of the text index")
        verbose_name_plural = _("progress of the text index")
        default_permissions = ()

    def __str__(self) -> str:
        return f"indexed through {self.through}"


class CallText(models.Model):
    """Searchable text of a call that ended: a copy for the text index, and no part of the audit log.

    It only suggests calls to a search, which then reads the calls themselves. It goes with the body of its call, in the
    same transaction.
    """

    id = models.BigAutoField(_("id"), primary_key=True)
    call_id = models.UUIDField(_("call"), unique=True)
    text = models.TextField(_("text"))

    class Meta:
        verbose_name = _("text of a call")
        verbose_name_plural = _("texts of calls")
        default_permissions = ()

    def __str__(self) -> str:
        return f"text of call {self.call_id}"
