"""What is on record: calls, administrative actions, and the chain that shows when somebody changed either.

Rows are written by the recorder, in its own statements, and read through these models. Nothing here points to another
table with a constraint: a user who is deleted leaves the calls as they were. Times are whole milliseconds, so that
SQLite and PostgreSQL hand back the same value and the chain verifies on both.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from audit import local_time, outcomes


class Call(models.Model):
    """One attempt, and how it ended."""

    id = models.UUIDField(primary_key=True)
    """UUIDv7: ordering by id is ordering by time."""
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    username = models.CharField(max_length=150)
    credential_id = models.CharField(max_length=64)
    credential = models.CharField(max_length=200)
    """The token's name at the time."""
    client_name = models.CharField(max_length=200)
    client_version = models.CharField(max_length=100)
    transport = models.CharField(max_length=16)
    revision = models.CharField(max_length=16)
    address = models.CharField(max_length=64)
    method = models.CharField(max_length=64)
    name = models.CharField(max_length=500)
    """The tool, prompt or resource as it was asked for."""
    target_id = models.BigIntegerField(null=True)
    definition = models.CharField(max_length=64)
    """The hash of the definition that was in force."""
    rule = models.CharField(max_length=500)
    """What decided, in words."""
    request_id = models.CharField(max_length=200)
    arguments = models.TextField()
    outcome = models.CharField(max_length=20, choices=outcomes.CHOICES)
    error_class = models.CharField(max_length=200)
    detail = models.TextField()
    result = models.TextField()
    result_bytes = models.BigIntegerField()
    result_sha256 = models.CharField(max_length=64)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    duration_us = models.BigIntegerField(null=True)
    writer = models.BigIntegerField()
    """The process that recorded the beginning."""
    link = models.BigIntegerField()
    """The link of the chain that holds the beginning, and with `end_link` the end."""
    end_link = models.BigIntegerField(null=True)
    body_state = models.CharField(max_length=10, choices=(("", "kept"), ("pruned", "pruned")))
    """`pruned`: arguments and result were replaced by `pruned:sha256:...`, which the chain still verifies."""

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("user", "id"), name="audit_call_user"),
            models.Index(fields=("outcome", "id"), name="audit_call_outcome"),
            models.Index(fields=("name", "id"), name="audit_call_name"),
            models.Index(fields=("user", "outcome", "id"), name="audit_call_user_outcome"),
        )
        permissions = (("cancel_call", "Can cancel running calls"),)

    def __str__(self) -> str:
        return f"{self.name} by {self.username}: {self.outcome}"


class Action(models.Model):
    """One administrative action: who did what to which thing, with what it was before and after."""

    id = models.UUIDField(primary_key=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=200)
    verb = models.CharField(max_length=64)
    kind = models.CharField(max_length=64)
    """What kind of thing it was done to, as `tool`."""
    target = models.CharField(max_length=500)
    before = models.TextField()
    after = models.TextField()
    """JSON objects, secrets elided; empty when there is nothing before or after."""
    link = models.BigIntegerField()

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=("kind", "target", "id"), name="audit_action_target"),)

    def __str__(self) -> str:
        return f"{self.actor}: {self.verb} {self.kind} {self.target}"


class Writer(models.Model):
    """A chain, and the process that extends it. Its heartbeat is the lease on the calls that it began."""

    id = models.BigIntegerField(primary_key=True)
    host = models.CharField(max_length=200)
    """The machine, its boot and the process namespace: where `pid` means something. Empty for chains of actions."""
    pid = models.BigIntegerField()
    born = models.BigIntegerField()
    """When the process started, in the kernel's clock ticks: a pid that was given to another process is not it."""
    started = models.DateTimeField()
    heartbeat = models.DateTimeField()
    ended = models.DateTimeField(null=True)
    covered = models.BigIntegerField()
    """The last sequence that a checkpoint signed."""
    sealed = models.BooleanField()
    """It ended and a checkpoint signed its last link: later checkpoints need not look at it."""

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"writer {self.id}"


class Link(models.Model):
    """One link: `hash` covers (writer, sequence, the previous link's hash, kind, subject, content)."""

    id = models.BigIntegerField(primary_key=True)
    """writer * 2**40 + sequence: unique together, and the chain in order, with one index."""
    writer = models.BigIntegerField()
    sequence = models.BigIntegerField()
    kind = models.CharField(max_length=12)
    subject = models.CharField(max_length=36)
    """The id of the call or action, as 32 hexadecimal digits."""
    content = models.CharField(max_length=64)
    """SHA-256 of the canonical bytes of what was recorded."""
    hash = models.CharField(max_length=64)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.kind} {self.writer}:{self.sequence}"


class Checkpoint(models.Model):
    """A signature over the heads of all chains that moved since the checkpoint before."""

    number = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    heads = models.TextField()
    """JSON: writer -> [sequence, hash]."""
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)
    key = models.CharField(max_length=16)
    signature = models.CharField(max_length=128)

    class Meta:
        ordering = ("-number",)
        indexes = (models.Index(fields=("at",), name="audit_checkpoint_at"),)

    def __str__(self) -> str:
        return gettext("Checkpoint %(number)s") % {"number": self.number}


class Verification(models.Model):
    """What a check of the chain found."""

    id = models.UUIDField(primary_key=True)
    at = models.DateTimeField()
    ok = models.BooleanField()
    through = models.CharField(max_length=64)
    """The newest call that was checked."""
    problem = models.TextField()
    """The first bad record and what is wrong with it; empty when nothing was found."""
    links = models.BigIntegerField()
    outside_head = models.BooleanField()
    """Whether a checkpoint kept elsewhere was compared: without one, cutting off the newest records does not show."""

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return local_time.told(self.at)


class SavedView(models.Model):
    """A filter of the list of calls that somebody keeps under a name. It is a convenience and no part of the record."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(_("name"), max_length=80)
    filters = models.TextField()
    """JSON object of what `searches.Question` takes from an address."""
    shared = models.BooleanField(_("shared with everybody who may read the record"), default=False)

    class Meta:
        ordering = ("name", "id")
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("owner", "name"), name="audit_savedview_name"),)

    def __str__(self) -> str:
        return self.name


class Tally(models.Model):
    """How many calls began within an hour or a day: counted from the record, once, and no part of it."""

    span = models.CharField(max_length=1)
    """`h`: an hour; `d`: a day (UTC)."""
    at = models.DateTimeField()
    """When it begins."""
    what = models.CharField(max_length=8)
    """What `key` is: an `outcome`, a `tool`, a `user`, or how long calls `took` (see `tallies`)."""
    key = models.CharField(max_length=500)
    calls = models.BigIntegerField()
    failed = models.BigIntegerField()
    """Those of them that did not end well; see `tallies.FAILED`."""

    class Meta:
        ordering = ("id",)
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("span", "what", "at", "key"), name="audit_tally_cell"),)

    def __str__(self) -> str:
        return f"{self.span} {self.at} {self.what} {self.key}: {self.calls}"


class Tallied(models.Model):
    """How far the tallies reach: one row, which only the process that counted next may change."""

    id = models.SmallIntegerField(primary_key=True)
    through = models.UUIDField()
    """Calls with smaller ids are counted, but for `open`."""
    open = models.TextField()
    """JSON: the ids of those that were still running; they are counted when they have ended."""

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"counted through {self.through}"
