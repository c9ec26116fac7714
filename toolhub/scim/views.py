"""The addresses of SCIM 2.0 (RFC 7644): users, groups, and what this server says about itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from django.db.models import Count, QuerySet
from django.http import HttpResponse

from toolhub.scim import errors, filters, memberships, people, resources, schemas
from toolhub.scim.endpoint import Call, endpoint, respond
from toolhub.scim.errors import invalid, not_found
from toolhub.scim.memberships import Description
from toolhub.scim.models import ScimGroup, ScimUser, key_of
from toolhub.scim.people import Person
from toolhub.scim.resources import Selection

MAX_INDEX_DIGITS = 9
USER_FILTERS, GROUP_FILTERS = ("userName", "externalId", "id", "displayName"), ("displayName", "externalId", "id")


# --- users ---------------------------------------------------------------------------------------------------------


def list_users(call: Call) -> HttpResponse:
    found = people.visible(call.provider)
    for one in _read_filter(call, USER_FILTERS):
        match one.attribute:
            case "username":
                found = found.filter(user_name_key=key_of(one.value))
            case "externalid":
                found = found.filter(identity__subject=one.value)
            case "displayname":
                found = found.filter(display_name__iexact=one.value)
            case _:
                found = _filter_id(found, one.value)
    start, count = _read_page(call)
    selection = _read_selection(call)
    page = list(found.order_by("created", "id")[start - 1 : start - 1 + count])
    listed = _show_users(page, selection)
    return respond(schemas.listing(listed, found.count(), start))


def create_user(call: Call) -> HttpResponse:
    stored = people.create(call.provider, people.read(call.body, Person()), call.by)
    return _answer_user(call, stored, 201)


def show_user(call: Call, id: str) -> HttpResponse:
    return _answer_user(call, people.find(call.provider, id))


def replace_user(call: Call, id: str) -> HttpResponse:
    stored = people.lock(call.provider, id)
    person = people.read(call.body, people.describe(stored))
    return _answer_user(call, people.update(stored, person, call.by))


def patch_user(call: Call, id: str) -> HttpResponse:
    stored = people.lock(call.provider, id)
    person = people.patch(call.body, people.describe(stored))
    return _answer_user(call, people.update(stored, person, call.by))


def delete_user(call: Call, id: str) -> HttpResponse:
    people.remove(people.lock(call.provider, id), call.by)
    return respond(None, 204)


def _answer_user(call: Call, stored: ScimUser, status: int = 200) -> HttpResponse:
    (shown,) = _show_users([stored], _read_selection(call))
    return respond(shown, status, Location=resources.location("User", stored.pk))


def _show_users(page: list[ScimUser], selection: Selection) -> list[dict[str, Any]]:
    groups: dict[Any, list[ScimGroup]] = {}
    if selection.has("groups"):
        through = ScimGroup.members.through.objects.filter(scimuser__in=page).select_related("scimgroup")
        for row in through.order_by("scimgroup__created", "scimgroup"):
            groups.setdefault(row.scimuser_id, []).append(row.scimgroup)
    return [selection.apply(resources.user(one, groups.get(one.pk, ()))) for one in page]


# --- groups --------------------------------------------------------------------------------------------------------


def list_groups(call: Call) -> HttpResponse:
    found = memberships.visible(call.provider)
    for one in _read_filter(call, GROUP_FILTERS):
        match one.attribute:
            case "displayname":
                found = found.filter(display_name_key=key_of(one.value))
            case "externalid":
                found = found.filter(external_id=one.value)
            case _:
                found = _filter_id(found, one.value)
    start, count = _read_page(call)
    selection = _read_selection(call)
    ordered = found.annotate(number=Count("members")).order_by("created", "id")
    page: list[Any] = list(ordered[start - 1 : start - 1 + count])
    if selection.has("members"):
        page = _cut(page)
    return respond(schemas.listing(_show_groups(page, selection), found.count(), start))


def _cut(page: list[Any]) -> list[Any]:
    """Return the first groups of a page: so many that they have no more members together than one group can have."""
    total = 0
    for place, group in enumerate(page):
        total += group.number
        if place and total > memberships.MAX_MEMBERS:
            return page[:place]
    return page


def create_group(call: Call) -> HttpResponse:
    stored = memberships.create(call.provider, memberships.read(call.body, Description()), call.by)
    return _answer_group(call, stored, 201)


def show_group(call: Call, id: str) -> HttpResponse:
    return _answer_group(call, memberships.find(call.provider, id))


def replace_group(call: Call, id: str) -> HttpResponse:
    stored = memberships.lock(call.provider, id)
    before = memberships.describe(stored)
    memberships.update(stored, before, memberships.read(call.body, before), call.by)
    return _answer_group(call, stored)


def patch_group(call: Call, id: str) -> HttpResponse:
    stored = memberships.lock(call.provider, id)
    before = memberships.describe(stored)
    memberships.update(stored, before, memberships.patch(call.body, before), call.by)
    # A group can be large: it is sent to those who ask for it.
    return _answer_group(call, stored) if call.request.GET.get("attributes") else respond(None, 204)


def delete_group(call: Call, id: str) -> HttpResponse:
    memberships.remove(memberships.lock(call.provider, id), call.by)
    return respond(None, 204)


def _answer_group(call: Call, stored: ScimGroup, status: int = 200) -> HttpResponse:
    (shown,) = _show_groups([stored], _read_selection(call))
    return respond(shown, status, Location=resources.location("Group", stored.pk))


def _show_groups(page: list[ScimGroup], selection: Selection) -> list[dict[str, Any]]:
    members: dict[Any, list[tuple[uuid.UUID, str]]] = {}
    if selection.has("members"):
        through = ScimGroup.members.through.objects.filter(scimgroup__in=page).order_by("pk")
        for group_id, user_id, name in through.values_list("scimgroup", "scimuser", "scimuser__user_name"):
            members.setdefault(group_id, []).append((user_id, name))
    return [selection.apply(resources.group(one, members.get(one.pk, ()))) for one in page]


# --- this server ---------------------------------------------------------------------------------------------------


def show_config(call: Call) -> HttpResponse:
    return respond(schemas.service_provider_config())


def list_resource_types(call: Call) -> HttpResponse:
    return respond(schemas.listing(schemas.resource_types()))


def show_resource_type(call: Call, id: str) -> HttpResponse:
    return _choose(schemas.resource_types(), id)


def list_schemas(call: Call) -> HttpResponse:
    return respond(schemas.listing(schemas.schemas()))


def show_schema(call: Call, id: str) -> HttpResponse:
    return _choose(schemas.schemas(), id)


def _choose(documents: Iterable[dict[str, Any]], id: str) -> HttpResponse:
    for document in documents:
        if document["id"] == id:
            return respond(document)
    raise not_found()


# --- parameters ----------------------------------------------------------------------------------------------------


def _read_filter(call: Call, known: tuple[str, ...]) -> tuple[filters.Comparison, ...]:
    text = call.request.GET.get("filter", "")
    if not text.strip():
        return ()
    found = filters.parse(text)
    filters.check_attributes(found, known)
    return found


def _filter_id(found: QuerySet[Any], text: str) -> QuerySet[Any]:
    try:
        return found.filter(pk=people.parse_id(text))
    except errors.ScimError:
        return found.none()


def _read_page(call: Call) -> tuple[int, int]:
    """Return the index of the first resource, from 1, and how many are wanted at most."""
    start = _read_number(call, "startIndex", 1)
    count = _read_number(call, "count", schemas.DEFAULT_COUNT)
    return max(start, 1), min(max(count, 0), schemas.MAX_COUNT)


def _read_number(call: Call, name: str, default: int) -> int:
    text = call.request.GET.get(name, "").strip()
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= MAX_INDEX_DIGITS):
        raise invalid(f"{name} must be a number.")
    return int(text)


def _read_selection(call: Call) -> Selection:
    return resources.parse_selection(
        call.request.GET.get("attributes", ""), call.request.GET.get("excludedAttributes", "")
    )


users = endpoint(GET=list_users, POST=create_user)
user = endpoint(GET=show_user, PUT=replace_user, PATCH=patch_user, DELETE=delete_user)
groups = endpoint(GET=list_groups, POST=create_group)
group = endpoint(GET=show_group, PUT=replace_group, PATCH=patch_group, DELETE=delete_group)
config = endpoint(GET=show_config)
resource_types = endpoint(GET=list_resource_types)
resource_type = endpoint(GET=show_resource_type)
schema_documents = endpoint(GET=list_schemas)
schema_document = endpoint(GET=show_schema)
nothing = endpoint()
