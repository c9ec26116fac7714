"""The catalogue's tables."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from catalog.models.access_requests import AccessRequest, CallReport
from catalog.models.accounts import ConnectedAccount
from catalog.models.approval_rules import ApprovalRule
from catalog.models.approvals import Approval, KnownValue, TemporaryApproval
from catalog.models.imports import ImportBatch, ImportedDocument, ImportedItem
from catalog.models.items import Prompt, Resource
from catalog.models.limit_usage import LimitUsage
from catalog.models.reviews import ReviewDecision
from catalog.models.rules import CatalogueRevision, Grant, Limit
from catalog.models.secrets import PersonalSecret, Secret
from catalog.models.task_state import StoredResult, Task
from catalog.models.tool_tests import ToolTest
from catalog.models.tools import Tool, Toolset
from catalog.models.upstreams import Upstream
from catalog.models.value_lists import Flag, ValueList, ValueListPart

__all__ = [
    "AccessRequest",
    "Approval",
    "ApprovalRule",
    "CallReport",
    "CatalogueRevision",
    "ConnectedAccount",
    "Flag",
    "Grant",
    "ImportBatch",
    "ImportedDocument",
    "ImportedItem",
    "KnownValue",
    "Limit",
    "LimitUsage",
    "PersonalSecret",
    "Prompt",
    "Resource",
    "ReviewDecision",
    "Secret",
    "StoredResult",
    "Task",
    "TemporaryApproval",
    "Tool",
    "ToolTest",
    "Toolset",
    "Upstream",
    "ValueList",
    "ValueListPart",
]


def _name_place(place: Any) -> str:
    """Return what a page says before it deletes a place: not "Tool_toolsets object (1)"."""
    return str(place.toolset)


# Django names the tables between items (tools, resources, prompts) and toolsets by itself, and only in English.
for _item in (Tool, Resource, Prompt):
    _through = _item.toolsets.through._meta
    _through.verbose_name, _through.verbose_name_plural = _("place in a toolset"), _("places in toolsets")
    _item.toolsets.through.__str__ = _name_place  # type: ignore[method-assign]
