"""What this server says about itself to identity providers (RFC 7643, sections 5 to 7)."""

from __future__ import annotations

from typing import Any

from toolhub.scim.models import base_url

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
_CONFIG = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
_RESOURCE_TYPE = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Schema"
USER_NAMES, GROUP_NAMES = frozenset({USER.lower()}), frozenset({GROUP.lower()})
"""What a path may be prefixed with to name an attribute of the core schema."""
IGNORED_OF_USERS = frozenset(
    {
        *("addresses", "entitlements", "ims", "locale", "nickname", "phonenumbers", "photos", "preferredlanguage"),
        *("profileurl", "roles", "timezone", "title", "usertype", "x509certificates"),
    }
)
"""Attributes of RFC 7643 that nothing here keeps."""
MAX_COUNT, DEFAULT_COUNT = 200, 100


def _attribute(name: str, description: str, kind: str = "string", **more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "name": name,
        "type": kind,
        "multiValued": False,
        "description": description,
        "required": False,
        "mutability": "readWrite",
        "returned": "default",
    }
    if kind == "string":
        plain |= {"caseExact": False, "uniqueness": "none"}
    return {**plain, **more}


_REFERENCE = _attribute("$ref", "The address of the resource.", "reference", mutability="readOnly", caseExact=True)
_USER_ATTRIBUTES = [
    _attribute(
        "userName", "The name at the identity provider; unique in any case.", required=True, uniqueness="server"
    ),
    _attribute(
        "externalId",
        "The subject of the person at the sign-in. It cannot change after the first sign-in.",
        required=True,
        caseExact=True,
        uniqueness="server",
    ),
    _attribute(
        "name",
        "The name of the person.",
        "complex",
        subAttributes=[_attribute("givenName", "The first name."), _attribute("familyName", "The last name.")],
    ),
    _attribute("displayName", "The name of the person as one text."),
    _attribute(
        "emails",
        "The email address; one is kept.",
        "complex",
        multiValued=True,
        subAttributes=[
            _attribute("value", "The address."),
            _attribute("type", "Always work.", canonicalValues=["work"]),
            _attribute("primary", "Always true.", "boolean"),
        ],
    ),
    _attribute("active", "Whether the person can use the account.", "boolean"),
    _attribute(
        "groups",
        "The groups with this person.",
        "complex",
        multiValued=True,
        mutability="readOnly",
        subAttributes=[
            _attribute("value", "The id of the group.", mutability="readOnly", caseExact=True),
            {**_REFERENCE, "referenceTypes": ["Group"]},
            _attribute("display", "The name of the group.", mutability="readOnly"),
        ],
    ),
]
_GROUP_ATTRIBUTES = [
    _attribute("displayName", "The name of the group; unique in any case.", required=True, uniqueness="server"),
    _attribute("externalId", "The ID at the identity provider.", caseExact=True, uniqueness="server"),
    _attribute(
        "members",
        "The users in the group.",
        "complex",
        multiValued=True,
        subAttributes=[
            _attribute("value", "The id of the user.", mutability="immutable", caseExact=True),
            {**_REFERENCE, "referenceTypes": ["User"]},
            _attribute("display", "The userName of the user.", mutability="readOnly"),
            _attribute("type", "Always User.", mutability="immutable", canonicalValues=["User"]),
        ],
    ),
]


def service_provider_config() -> dict[str, Any]:
    return {
        "schemas": [_CONFIG],
        "patch": {"supported": True},
        "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": True, "maxResults": MAX_COUNT},
        "changePassword": {"supported": False},
        "sort": {"supported": False},
        "etag": {"supported": False},
        "authenticationSchemes": [
            {
                "type": "oauthbearertoken",
                "name": "Provisioning token",
                "description": "Authorization: Bearer thi_..., created by an administrator of this server.",
                "primary": True,
            }
        ],
        "meta": {"resourceType": "ServiceProviderConfig", "location": f"{base_url()}/ServiceProviderConfig"},
    }


def resource_types() -> list[dict[str, Any]]:
    return [
        {
            "schemas": [_RESOURCE_TYPE],
            "id": name,
            "name": name,
            "description": description,
            "endpoint": f"/{name}s",
            "schema": schema,
            "meta": {"resourceType": "ResourceType", "location": f"{base_url()}/ResourceTypes/{name}"},
        }
        for name, schema, description in (("User", USER, "A person"), ("Group", GROUP, "A group of people"))
    ]


def schemas() -> list[dict[str, Any]]:
    return [
        {
            "schemas": [_SCHEMA],
            "id": id,
            "name": name,
            "description": description,
            "attributes": attributes,
            "meta": {"resourceType": "Schema", "location": f"{base_url()}/Schemas/{id}"},
        }
        for id, name, description, attributes in (
            (USER, "User", "A person", _USER_ATTRIBUTES),
            (GROUP, "Group", "A group of people", _GROUP_ATTRIBUTES),
        )
    ]


def listing(resources: list[dict[str, Any]], total: int | None = None, start: int = 1) -> dict[str, Any]:
    """Return a list response (RFC 7644, section 3.4.2)."""
    return {
        "schemas": [LIST],
        "totalResults": len(resources) if total is None else total,
        "startIndex": start,
        "itemsPerPage": len(resources),
        "Resources": resources,
    }
