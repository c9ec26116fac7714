"""Watched models: every change to a row is logged as admin activity, with the fields before and after.

Apps register their models from `AppConfig.ready`. A save, a delete, a change of a many-to-many relation, and, for
querysets with `WatchedQuerySet`, a bulk update or insertion are logged in the transaction of the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import models, router, transaction
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete, pre_save
from django.utils.translation import override

from audit.actions import log
from audit.format import keys
from audit.redaction.redactor import CHANGED, HIDDEN
from toolhub.parts import parts

MAX_LISTED_ROWS = 200
"""Maximum rows of a bulk change that are listed one by one; the others are counted."""
_BEFORE_ATTRIBUTE = "_audit_before"


@dataclass(frozen=True, slots=True)
class WatchedModel:
    kind: str
    fields: tuple[str, ...]
    secrets: frozenset[str]
    expressions: Mapping[str, Any]
    where: models.Q
    """The rows whose changes are logged: to the log, another one does not exist."""

    def read_row(self, instance: models.Model, using: str | None) -> dict[str, Any] | None:
        """Return the logged fields of the row from the database; None when it has no such row."""
        if instance.pk is None:
            return None
        manager = type(instance)._base_manager
        return manager.using(using).filter(self.where, pk=instance.pk).values(*self.fields, **self.expressions).first()

    def read_instance(self, instance: models.Model) -> dict[str, Any]:
        """Return the logged fields of the instance, without a database query."""
        return {name: getattr(instance, name) for name in self.fields}

    def hide_secrets(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: HIDDEN if name in self.secrets else value for name, value in values.items()}


class WatchedModelRegistry:
    """The watched models of a process."""

    def __init__(self) -> None:
        self.by_model: dict[type[models.Model], WatchedModel] = {}


def watched_models() -> dict[type[models.Model], WatchedModel]:
    """Return for each watched model which fields are logged, and how."""
    found = parts.find(WatchedModelRegistry)
    if found is None:  # the first `watch`: Django calls `ready` of the applications one after the other, in one thread
        found = WatchedModelRegistry()
        parts.put(found)
    return found.by_model


def watch(
    model: type[models.Model],
    fields: Iterable[str] | None = None,
    *,
    kind: str = "",
    ignore: Iterable[str] = (),
    secrets: Iterable[str] = (),
    many_to_many_names: Iterable[str] | None = None,
    expressions: Mapping[str, Any] | None = None,
    where: models.Q | None = None,
) -> None:
    """Log every change of the model.

    `fields` are the logged columns, all by default. `ignore` excludes some (a change of those alone is not logged);
    columns that every save sets to the current time (`auto_now`) are always excluded. Of `secrets` the log has only
    that they changed. `many_to_many_names` names many-to-many relations, all of them by default.
    `expressions` are logged beside the columns, by name: parts of a JSON column, for example. Rows outside of `where`
    are not logged: one that comes in is logged as created.
    """
    meta = model._meta
    columns = {field.name: field.attname for field in meta.concrete_fields}
    wanted = columns.values() if fields is None else [columns.get(name, name) for name in fields]
    clocks = [field.attname for field in meta.concrete_fields if getattr(field, "auto_now", False)]
    without = {*clocks, *(columns.get(name, name) for name in ignore)}
    watched_models()[model] = WatchedModel(
        kind or str(meta.verbose_name),
        tuple(name for name in wanted if name not in without),
        frozenset(secrets),
        dict(expressions or {}),
        where if where is not None else models.Q(),
    )
    uid = f"audit.actions.model_signals.{meta.label}"
    pre_save.connect(_before_save, sender=model, dispatch_uid=f"{uid}.pre_save")
    post_save.connect(_after_save, sender=model, dispatch_uid=f"{uid}.post_save")
    pre_delete.connect(_before_delete, sender=model, dispatch_uid=f"{uid}.pre_delete")
    post_delete.connect(_after_delete, sender=model, dispatch_uid=f"{uid}.post_delete")
    for name in [field.name for field in meta.many_to_many] if many_to_many_names is None else many_to_many_names:
        field = meta.get_field(name)
        through = field.remote_field.through  # type: ignore[union-attr]
        m2m_changed.connect(_make_relation_handler(name), sender=through, weak=False, dispatch_uid=f"{uid}.{name}")
    manager: Any = model._default_manager
    if not issubclass(manager._queryset_class, WatchedQuerySet):
        # Models of other applications (users and groups): their manager now returns querysets that log as well.
        name = f"Recording{manager._queryset_class.__name__}"
        manager._queryset_class = type(name, (WatchedQuerySet, manager._queryset_class), {})


def name_of(instance: models.Model, pk: Any = None) -> str:
    return f"{instance} {_format_key(instance.pk if pk is None else pk)}"


def _format_key(pk: Any) -> str:
    return f"(id {pk})"


def activity_parameters(instance: models.Model) -> dict[str, str] | None:
    """Return the parameters with which the list of admin activity shows every change of this row, under any name.

    Return None when its model is not watched.
    """
    watched = watched_models().get(type(instance))
    return None if watched is None else {"kind": watched.kind, "q": _format_key(instance.pk)}


def _before_save(*, sender: type[models.Model], instance: models.Model, using: str | None, **_: Any) -> None:
    keys.require()  # before the row is saved: afterwards it would stay, unlogged
    watched = watched_models()[sender]
    # A new row that already has a key costs one query, which finds nothing.
    setattr(instance, _BEFORE_ATTRIBUTE, watched.read_row(instance, using))


def _after_save(
    *, sender: type[models.Model], instance: models.Model, created: bool, using: str | None, **_: Any
) -> None:
    watched = watched_models()[sender]
    before = instance.__dict__.pop(_BEFORE_ATTRIBUTE, None)
    # Read back: after an expression such as F("count") + 1, or a save of some fields only, the instance differs from
    # the row.
    after = watched.read_row(instance, using) or {}
    if before is None and not after and watched.where:
        return
    if created or before is None:
        log.record("created", watched.kind, name_of(instance), None, watched.hide_secrets(after))
        return
    changes = [name for name in before if before[name] != after.get(name)]
    if changes:
        log.record("changed", watched.kind, name_of(instance), *_diff_values(watched, before, after, changes))


def _diff_values(
    watched: WatchedModel, before: dict[str, Any], after: dict[str, Any], names: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        {name: HIDDEN if name in watched.secrets else before[name] for name in names},
        {name: CHANGED if name in watched.secrets else after.get(name) for name in names},
    )


def _before_delete(*, sender: type[models.Model], instance: models.Model, using: str | None, **_: Any) -> None:
    keys.require()
    # The name may contain that of another row, as a grant's contains its tool's: when both are deleted, the other row
    # may be deleted first.
    setattr(instance, _BEFORE_ATTRIBUTE, (name_of(instance), watched_models()[sender].read_row(instance, using)))


def _after_delete(*, sender: type[models.Model], instance: models.Model, **_: Any) -> None:
    watched = watched_models()[sender]
    name, before = instance.__dict__.pop(_BEFORE_ATTRIBUTE)
    if before is None and watched.where:
        return
    log.record("deleted", watched.kind, name, watched.hide_secrets(before or watched.read_instance(instance)), None)


def _translate_to_english(text: Any) -> str:
    """Return the text in English, the language of the audit log, whatever the language of the page."""
    with override("en"):
        return str(text)


def _make_relation_handler(name: str) -> Any:
    def changed(
        *, instance: Any, action: str, reverse: bool, model: type[models.Model], pk_set: set[Any] | None, **_: Any
    ) -> None:
        if action not in {"pre_add", "post_add", "pre_remove", "post_remove", "pre_clear", "post_clear"}:
            return
        watched = watched_models().get(type(instance))
        kind = watched.kind if watched is not None else _translate_to_english(instance._meta.verbose_name)
        key = f"{_BEFORE_ATTRIBUTE}_{name}_{reverse}"
        if action.startswith("pre_"):
            keys.require()
            # Only the affected rows are read: a group may have thousands of members.
            manager = _manager(instance, name, model if reverse else None)
            chosen = manager.all() if pk_set is None else manager.filter(pk__in=pk_set)
            instance.__dict__[key] = {row.pk: str(row) for row in chosen}
            return
        before: dict[Any, str] = instance.__dict__.pop(key, {})
        label = _translate_to_english(model._meta.verbose_name_plural) if reverse else name
        if action == "post_add":
            added = [row for row in model._base_manager.filter(pk__in=pk_set or ()) if row.pk not in before]
            if added:
                names = sorted(map(str, added))
                log.record("added to", kind, name_of(instance), {label: []}, {label: names})
        elif before:
            log.record("removed from", kind, name_of(instance), {label: sorted(before.values())}, {label: []})

    def _manager(instance: Any, name: str, owner_model: type[models.Model] | None) -> Any:
        if owner_model is None:
            return getattr(instance, name)
        for relation in instance._meta.related_objects:
            # Compare the model too: several models may use the same name, and some have no reverse relation.
            if relation.many_to_many and relation.field.name == name and relation.related_model is owner_model:
                return getattr(instance, relation.get_accessor_name())
        raise LookupError(f"{type(instance).__name__} has no way back over {name}")

    return changed


class WatchedQuerySet(models.QuerySet[Any]):
    """Base class for querysets of watched models: `update`, `bulk_create` and `bulk_update` send no signals."""

    def update(self, **changes: Any) -> int:
        watched = watched_models().get(self.model)
        columns = {field.name: field.attname for field in self.model._meta.concrete_fields}
        names = [columns.get(name, name) for name in changes]
        if watched is None or not (touched := [name for name in names if name in watched.fields]):
            return super().update(**changes)
        base = self.model._base_manager
        with transaction.atomic(using=router.db_for_write(self.model)):
            before = {row["pk"]: row for row in self.filter(watched.where).values("pk", *touched)}
            number = super().update(**changes)
            after = {
                row["pk"]: row
                for start in range(0, len(before), 500)
                for row in base.filter(pk__in=list(before)[start : start + 500]).values("pk", *touched)
            }
            rows = [
                (pk, row, after.get(pk, {}))
                for pk, row in before.items()
                if any(row[name] != after.get(pk, {}).get(name) for name in touched)
            ]
            if rows:
                old, new = {}, {}
                for pk, row, now in rows[:MAX_LISTED_ROWS]:
                    old[str(pk)], new[str(pk)] = _diff_values(watched, row, now, touched)
                counted = {"count": len(rows)}
                log.record("changed", watched.kind, f"{len(rows)} at once", old | counted, new | counted)
        return number

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(self, objs: Iterable[Any], *args: Any, **options: Any) -> list[Any]:
        watched = watched_models().get(self.model)
        if watched is None:
            return super().bulk_create(objs, *args, **options)
        with transaction.atomic(using=router.db_for_write(self.model)):
            made = super().bulk_create(list(objs), *args, **options)
            if made:
                listed = {str(row): watched.hide_secrets(watched.read_instance(row)) for row in made[:MAX_LISTED_ROWS]}
                log.record("created", watched.kind, f"{len(made)} at once", None, listed | {"count": len(made)})
        return made
