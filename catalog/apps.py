from __future__ import annotations

from django.apps import AppConfig
from django.db.models import Q
from django.db.models.signals import m2m_changed, post_delete, post_migrate, post_save, pre_delete
from django.utils.translation import gettext_lazy as _


class CatalogConfig(AppConfig):
    name = "catalog"
    label = "catalog"
    verbose_name = _("Catalogue")

    def ready(self) -> None:
        from audit.actions.model_signals import watch
        from catalog import checks, encryption, models, signals  # noqa: F401 - registers the system checks
        from catalog.accounts.tokens import Refreshes
        from catalog.calls.approval_wait import Waits
        from catalog.calls.execution import RunningCalls
        from catalog.calls.prepared_tools import PreparedTools
        from catalog.calls.trial_notes import TrialWarnings
        from catalog.functions.context import ProgressListeners
        from catalog.functions.updates import ResourceUpdates
        from catalog.metering.limit_cache import LimitThreads, RedisHealth
        from catalog.metering.quota_writer import QuotaWriter
        from catalog.metering.running import Slots
        from catalog.models.access_requests import forget_target
        from catalog.models.value_lists import keep_while_used
        from catalog.policy import revision, snapshot
        from catalog.processes.launch import ChildProcesses
        from catalog.runners.sql_query.readers import SqliteReaders
        from catalog.runners.upstream_mcp.notifications import UpstreamListeners
        from catalog.runners.upstream_mcp.pool import UpstreamPools
        from catalog.secrets import resolve, rotation
        from catalog.threads import ThreadPools
        from catalog.upstreams import discovery, schedule
        from toolhub.egress import NameResolver
        from toolhub.parts import parts

        for part in (
            snapshot.SnapshotStore(),
            resolve.SecretStore([discovery.secret_uses]),
            Refreshes(),
            PreparedTools(),
            RunningCalls(),
            Waits(),
            ProgressListeners(),
            ResourceUpdates(),
            NameResolver(),
            ThreadPools(),
            RedisHealth(),
            LimitThreads(),
            QuotaWriter(),
            Slots(),
            TrialWarnings(),
            ChildProcesses(),
            SqliteReaders(),
            UpstreamListeners(),
            UpstreamPools(),
            schedule.UpstreamSchedule(),
        ):
            parts.put(part)
        encryption.register(rotation.move)
        post_migrate.connect(revision.after_migrate, sender=self, dispatch_uid="catalog.policy.revision")
        for model in revision.watched_columns():
            for signal in (post_save, post_delete, m2m_changed):
                signal.connect(signals.on_change, sender=model, dispatch_uid=f"catalog.{model._meta.label}")
        for model in (models.Tool, models.Resource, models.Prompt):
            post_save.connect(
                schedule.on_item_saved, sender=model, dispatch_uid=f"catalog.upstreams.{model._meta.label}"
            )
        for model in (models.Tool, models.Toolset):
            pre_delete.connect(forget_target, sender=model, dispatch_uid=f"catalog.requests.{model._meta.label}")
        for model in (models.ValueList, models.Flag):
            pre_delete.connect(keep_while_used, sender=model, dispatch_uid=f"catalog.uses.{model._meta.label}")
        signals.changed.connect(snapshot.on_changed, dispatch_uid="catalog.policy.snapshot")
        # Changes made by quarantine are logged by catalog.quarantine, with the difference.
        for model in (models.Tool, models.Resource, models.Prompt):
            watch(model, ignore=("version", *model.REVIEW_FIELDS), many_to_many_names=("toolsets",))
        for model in (models.Toolset, models.Grant, models.ValueList, models.Flag):
            watch(model)
        watch(models.ValueListPart, kind="value list part")
        watch(models.Limit, kind="limit")
        watch(models.ApprovalRule, kind="approval rule")
        watch(models.ToolTest, kind="test case", ignore=models.ToolTest.RESULT_FIELDS)
        # A preview changes nothing in the catalogue; it becomes a change when it is imported.
        unlogged = ("pending", "pending_source", "pending_at", "draft", "kept")
        watch(models.ImportedDocument, ignore=unlogged, where=Q(draft=False))
        watch(models.Upstream, kind="upstream", ignore=models.Upstream.HEALTH_FIELDS)
        watch(models.Secret, secrets=("value", "client_secret"), ignore=("registration",))
        watch(models.PersonalSecret, secrets=("value",))
        watch(models.ConnectedAccount, kind="account", ignore=("tokens", "version", "refreshing_until"))
        signals.changed.connect(resolve.forget, dispatch_uid="catalog.secrets.resolve")
