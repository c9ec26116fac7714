"""Decisions about a rule in trial: put it in force, or end its trial.

The row is locked, so that of two people one decides and the other one reads that it is decided.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from audit.actions import log, model_signals
from catalog.models.rule_trials import CatalogueRule
from catalog.policy.definitions import digest


def put_in_force(row: CatalogueRule, seen: str = "") -> CatalogueRule:
    """Apply a rule that was in trial, and return the row in force.

    A rule that was tried in the place of another one becomes the content of that one, which keeps its id, its history
    and, where names are unique, its name; the row in trial is deleted. Raises ValidationError when the row is not in
    trial any more, differs from what was `seen` (see `fingerprint`), or cannot be in force like this.
    """
    with transaction.atomic():
        tried, replaced = _lock(row, seen)
        result = tried if replaced is None else replaced
        if replaced is None:
            tried.trial = False
        else:
            for column in content_columns(type(tried)):
                setattr(replaced, column.attname, getattr(tried, column.attname))
        result.full_clean()
        result.save()
        kind = model_signals.watched_models()[type(result)].kind
        log.record("put in force", kind, model_signals.name_of(result), None, {"trial": tried.pk})
        if replaced is not None:
            tried.delete()
    return result


def end(row: CatalogueRule, seen: str = "") -> None:
    """Delete a rule in trial. Raises ValidationError as `put_in_force` does, but for what it decides."""
    with transaction.atomic():
        tried, _replaced = _lock(row, seen)
        tried.delete()


def fingerprint(row: CatalogueRule) -> str:
    """Return the fingerprint of a row in trial and of the row in whose place it is tried.

    The form of a decision carries it: only what its reader saw is put in force.
    """
    return _digest(row, row.replaces)


def content_columns(model: type[CatalogueRule]) -> list[models.Field[Any, Any]]:
    """Return the columns that a rule takes over from its trial: all but the key, those of trials, and unique names."""
    without = ("id", *model.TRIAL_FIELDS)
    return [column for column in model._meta.concrete_fields if column.name not in without and not column.unique]


def differ(first: CatalogueRule, second: CatalogueRule) -> bool:
    """Return whether two rules of one kind differ in what they decide, or in the note about it."""
    columns = content_columns(type(first))
    return any(getattr(first, column.attname) != getattr(second, column.attname) for column in columns)


def _lock(row: CatalogueRule, seen: str) -> tuple[CatalogueRule, CatalogueRule | None]:
    """Return the locked row and the one in whose place it is tried, as both are stored. Raises ValidationError."""
    rows = type(row).everything.select_for_update()
    tried = rows.filter(pk=row.pk, trial=True).first()
    if tried is None:
        raise ValidationError(
            _("This rule is not in trial any more: someone put it in force or ended its trial."), code="decided"
        )
    replaced = rows.filter(pk=tried.replaces_id).first() if tried.replaces_id is not None else None
    if seen and seen != _digest(tried, replaced):
        raise ValidationError(_("The rule changed after you opened the page. Review it again."), code="stale")
    return tried, replaced


def _digest(tried: CatalogueRule, replaced: CatalogueRule | None) -> str:
    columns = [column.attname for column in type(tried)._meta.concrete_fields]
    rows = [tried] if replaced is None else [tried, replaced]
    return digest([[_as_json(getattr(one, name)) for name in columns] for one in rows])


def _as_json(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value
