"""Value lists: values that conditions of grants and approval rules refer to by the name of the list.

A list has them for everyone, for a group, or for a user.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import ProtectedError, Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from simple_history.models import HistoricalRecords

from catalog.models import validators as check
from catalog.models.approval_rules import ApprovalRule
from catalog.models.base import check_name, check_unlike
from catalog.models.fields import JSONTextField, check_kinds, reject
from catalog.models.rules import Grant
from catalog.querysets import CatalogueQuerySet
from toolhub.chinese import close_blanks

MAX_NAMED_USES: Final = 10
MAX_VALUES: Final = 10_000
MAX_VALUE_CHARACTERS: Final = 500
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Line breaks among others: forms have one value on each line."""


def check_values(value: Any) -> None:
    """Raise ValidationError unless this is a list of texts that a condition can compare."""
    if not isinstance(value, list):
        reject(_("Enter a list of texts."))
    if len(value) > MAX_VALUES:
        reject(_("A list can have at most %(most)s values."), most=f"{MAX_VALUES:,}")
    seen: set[str] = set()
    for number, one in enumerate(value, 1):
        if not isinstance(one, str) or not 1 <= len(one) <= MAX_VALUE_CHARACTERS:
            text = _("Value %(number)s must be a text of 1 to %(most)s characters.")
            reject(text, number=number, most=MAX_VALUE_CHARACTERS)
        if CONTROL.search(one) or one != one.strip():
            reject(_("Value %(number)s must be one line, without blanks around it."), number=number)
        if one in seen:
            reject(_("The value “%(value)s” is there twice. Remove one."), value=one[:100])
        seen.add(one)


@dataclass(slots=True)
class Uses:
    """The ids of the grants and of the approval rules that refer to one name."""

    grants: list[int] = field(default_factory=list)
    rules: list[int] = field(default_factory=list)


class NamedForGrants(models.Model):
    """A row that grants refer to by its name, and approval rules to a list. It keeps the name, and stays, meanwhile."""

    name = models.CharField(_("name"), max_length=100, unique=True, validators=[check_name])
    description = models.CharField(_("description"), max_length=500, blank=True)

    objects = CatalogueQuerySet.as_manager()

    GRANT_COLUMN: ClassVar[str]
    """The column of a grant that can refer to such a row."""
    RULE_COLUMN: ClassVar[str] = ""
    """The column of an approval rule that can; empty for none."""

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name

    @classmethod
    def find_uses(cls) -> dict[str, Uses]:
        """Return for each name that is referred to the grants and the approval rules that do."""
        found: dict[str, Uses] = {}
        for pk, names in cls._list_references(Grant, cls.GRANT_COLUMN):
            for name in names:
                found.setdefault(name, Uses()).grants.append(pk)
        for pk, names in cls._list_references(ApprovalRule, cls.RULE_COLUMN) if cls.RULE_COLUMN else ():
            for name in names:
                found.setdefault(name, Uses()).rules.append(pk)
        return found

    @classmethod
    def _list_references(cls, model: type[ApprovalRule | Grant], column: str) -> list[tuple[int, list[str]]]:
        """Return (id, names) of the rows that refer to any, the oldest first."""
        rows = model.everything.exclude(**{column: []}).order_by("pk").values_list("pk", column)
        return [(pk, list(dict.fromkeys(cls.find_names(entries or [])))) for pk, entries in rows]

    @staticmethod
    def find_names(entries: list[Any]) -> list[str]:
        """Return the names to which such a column refers."""
        return entries

    def clean(self) -> None:
        super().clean()
        check_unlike(self, self.name)
        stored = self.find_stored_name()
        if stored is not None and stored != self.name and (users := self.find_uses().get(stored)):
            raise ValidationError({"name": self.in_use(stored, users)})

    def find_stored_name(self) -> str | None:
        """Return the name in the database, which a form may have changed here; None for a new row."""
        return type(self)._default_manager.filter(pk=self.pk).values_list("name", flat=True).first()

    @staticmethod
    def in_use(name: str, users: Uses) -> str:
        """Return why a name that grants or approval rules use cannot go away."""
        sentences = []
        if users.grants:
            text = ngettext(
                "“%(name)s” is used by grant %(numbers)s. Change or delete that grant first.",
                "“%(name)s” is used by grants %(numbers)s. Change or delete these grants first.",
                len(users.grants),
            )
            sentences.append(text % {"name": name, "numbers": _shorten(users.grants)})
        if users.rules:
            text = ngettext(
                "“%(name)s” is used by approval rule %(numbers)s. Change or delete that rule first.",
                "“%(name)s” is used by approval rules %(numbers)s. Change or delete these rules first.",
                len(users.rules),
            )
            sentences.append(text % {"name": name, "numbers": _shorten(users.rules)})
        return close_blanks(" ".join(sentences))


def _shorten(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:MAX_NAMED_USES])) + (" ..." if len(numbers) > MAX_NAMED_USES else "")


class ValueList(NamedForGrants):
    """A named list of texts, such as our repositories. A person's values are those of all parts that reach them."""

    history = HistoricalRecords()

    GRANT_COLUMN = RULE_COLUMN = "conditions"

    class Meta:
        verbose_name = _("value list")
        verbose_name_plural = _("value lists")
        ordering: ClassVar = ["name"]

    @staticmethod
    def find_names(entries: list[Any]) -> list[str]:
        return [condition["list"] for condition in entries if "list" in condition]


class ValueListPart(models.Model):
    """The values that a value list has for everyone, for the members of a group, or for one user."""

    value_list = models.ForeignKey(ValueList, models.CASCADE, verbose_name=_("value list"), related_name="parts")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        verbose_name=_("user"),
        null=True,
        blank=True,
        related_name="value_list_parts",
    )
    group = models.ForeignKey(
        "auth.Group", models.CASCADE, verbose_name=_("group"), null=True, blank=True, related_name="value_list_parts"
    )
    everyone = models.BooleanField(_("everyone"), default=False)
    entries = JSONTextField(_("values"), default=list, blank=True, validators=[check_values])

    objects = CatalogueQuerySet.as_manager()
    history = HistoricalRecords()

    class Meta:
        verbose_name = _("values for a group, a user or everyone")
        verbose_name_plural = _("values for groups, users and everyone")
        ordering: ClassVar = ["value_list", "id"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, group__isnull=True, everyone=False)
                | Q(user__isnull=True, group__isnull=False, everyone=False)
                | Q(user__isnull=True, group__isnull=True, everyone=True),
                name="value_list_part_has_one_subject",
                violation_error_message=_("Choose exactly one of user, group and everyone."),
            ),
            *(
                models.UniqueConstraint(
                    fields=["value_list", *([subject] if subject != "everyone" else [])],
                    condition=Q(everyone=True) if subject == "everyone" else Q(**{f"{subject}__isnull": False}),
                    name=f"one_value_list_part_{subject}",
                    violation_error_message=_("The list already has values for this user or group, or for everyone."),
                )
                for subject in ("user", "group", "everyone")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.value_list} for {self.subject}"

    @property
    def subject(self) -> str:
        if self.user_id is not None:
            return f"user {self.user}"
        return f"group {self.group}" if self.group_id is not None else "everyone"

    def clean(self) -> None:
        """Check what the constraints check, for forms in which they cannot: beside the field that is wrong."""
        super().clean()
        check_kinds(self)
        field = check.subject(self)
        subject = {name: getattr(self, name) for name in ("user_id", "group_id", "everyone")}
        if self.value_list_id and type(self).objects.filter(**subject, value_list=self.value_list_id).exclude(
            pk=self.pk
        ):
            twice = _("The list already has values for this user or group, or for everyone.")
            raise ValidationError({field: twice})


class Flag(NamedForGrants):
    """A switch that grants refer to: on for a percentage of the users, the same ones as long as it stays."""

    percentage = models.PositiveSmallIntegerField(
        _("percentage"),
        default=0,
        validators=[MaxValueValidator(100)],
        help_text=_("On for so many percent of the users: 0 switches it off, 100 switches it on for everyone."),
    )
    history = HistoricalRecords()

    GRANT_COLUMN = "flags"

    class Meta:
        verbose_name = _("flag")
        verbose_name_plural = _("flags")
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(percentage__lte=100),
                name="flag_percentage",
                violation_error_message=_("The percentage must be between 0 and 100."),
            )
        ]


def keep_while_used(*, instance: NamedForGrants, **_: Any) -> None:
    """Refuse to delete a value list or a flag that is in use. Raises ProtectedError.

    A receiver of the signal, so that it also holds for the deletion of many rows at once.
    """
    name = instance.find_stored_name() or instance.name
    if users := instance.find_uses().get(name):
        raise ProtectedError(instance.in_use(name, users), _load_users(users))


def _load_users(users: Uses) -> set[Any]:
    grants = Grant.everything.filter(pk__in=users.grants[:MAX_NAMED_USES])
    return {*grants, *ApprovalRule.everything.filter(pk__in=users.rules[:MAX_NAMED_USES])}


def has_more_values(user_id: int, other_id: int) -> bool:
    """Return whether a value list has a value for the first user that it does not have for the second."""
    return bool(_find_values(user_id) - _find_values(other_id))


def find_groups_with_values(group_ids: frozenset[int]) -> frozenset[int]:
    """Return those of the groups for which a value list has values: whoever joins gets them."""
    parts = ValueListPart.objects.filter(group__in=group_ids).order_by()
    return frozenset(key for key in parts.values_list("group", flat=True) if key is not None)


def _find_values(user_id: int) -> set[tuple[int, str]]:
    """Return (id of the list, value) of all parts for a user and for their groups."""
    theirs = ValueListPart.objects.filter(Q(user=user_id) | Q(group__user=user_id)).order_by()
    rows = theirs.values_list("value_list", "entries")
    return {(key, value) for key, entries in rows for value in entries or []}
