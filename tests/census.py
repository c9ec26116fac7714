"""Every address of toolhub, and who may use it how. `test_census.py` fails for an address that has no row here.

    Rule("calls/<uuid:pk>/", OWNER, "GET", at="calls/{call}/")

The first part is the route as Django's resolver spells it. `who` is ANYONE, SIGNED_IN, OWNER (the signed-in person's
own things; other people's are as absent as what never was), STAFF, SUPERUSER, or `needs("app.permission", ...)`: staff
that holds every one of these, where `a|b` is one of the two. `methods` is "GET", "GET POST" or, for what only changes
something, "POST". A route with parameters says in `at` what to put there: `create_address_values` makes it and has the
names.

One `Model` covers the addresses that the admin makes by itself for a model: list, add, change, delete, history.
"""

from __future__ import annotations

import ast
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ROUTING = Path(__file__).resolve().parent.parent / "toolhub" / "routing.py"


@dataclass(frozen=True, slots=True)
class Audience:
    name: str
    permissions: tuple[str, ...] = ()

    @property
    def is_staff(self) -> bool:
        return self.name in {"staff", "superuser"}


ANYONE, SIGNED_IN, OWNER, STAFF = Audience("anyone"), Audience("signed in"), Audience("owner"), Audience("staff")
SUPERUSER = Audience("superuser")
"""No permission that staff could hold is enough."""
MACHINE = Audience("machine")
"""A program without a session: no cookie is read, so no form of another site can misuse one."""


def needs(*permissions: str) -> Audience:
    return Audience("staff", permissions)


@dataclass(frozen=True, slots=True)
class Rule:
    route: str
    who: Audience
    methods: str = "GET"
    at: str = ""
    """The address to drive, without the first slash; needed where the route has parameters."""
    also: str = ""
    """With OWNER: the permission with which staff may use it for what is somebody else's."""
    empty: bool = False
    """There is nothing behind the address that is driven, for the right person neither."""

    def path(self, address_values: dict[str, Any]) -> str:
        return "/" + (self.at or self.route).format(**address_values)


@dataclass(frozen=True, slots=True)
class Model:
    """The admin's pages of one model. `verbs` is what they offer; what is missing there nobody can do, root neither."""

    label: str
    verbs: str = "view add change delete"
    special: dict[str, Audience] = field(default_factory=dict)
    """Verbs that ask for something else than Django's permission of that name."""

    def who(self, verb: str) -> Audience:
        app, _, name = self.label.partition(".")
        if not verb:
            return STAFF
        if verb in ("view", "history"):
            return self.special.get(verb) or self.special.get("view") or needs(f"{app}.view_{name}|{app}.change_{name}")
        return self.special.get(verb) or needs(f"{app}.{verb}_{name}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What Channels answers itself. `who` is "anyone", "token" (bearer), or "session" (a browser that is signed in)."""

    path: str
    kind: str
    who: str


READS = needs("audit.view_call|audit.change_call")
"""Whoever may read the record of calls."""

TRIES, TRY = needs("catalog.view_tool", "catalog.try_tool"), "admin/catalog/tool/{tool}/try/{call}"
MATRIX = needs("catalog.view_grant", "catalog.view_toolset", "auth.view_group")
GRANTS = ("catalog.add_grant", "catalog.change_grant", "catalog.delete_grant")
CONNECTIONS = needs("access.view_connections")
BACKUPS = needs("pages.manage_backups")
GIVES = needs(
    *("catalog.add_grant", "catalog.view_grant", "catalog.view_tool"),
    *("catalog.view_toolset", "auth.view_user", "auth.view_group"),
)
MEMBERS = ("auth.view_group", "auth.view_user")
CHOOSES = ("catalog.view_tool", "catalog.view_toolset", "auth.view_user", "auth.view_group")

RULES: tuple[Rule, ...] = (
    # --- the user's area
    Rule("", ANYONE),
    Rule("sign-in/", ANYONE, "GET POST"),
    Rule("sign-in/with/<slug:slug>/", ANYONE, at="sign-in/with/{provider}/", empty=True),
    Rule("sign-in/with/<slug:slug>/callback/", ANYONE, at="sign-in/with/{provider}/callback/", empty=True),
    Rule("sign-out/", ANYONE, "POST"),
    Rule("language/", ANYONE, "POST"),
    Rule("account/", SIGNED_IN, "GET POST"),
    Rule("account/link/<slug:slug>/", SIGNED_IN, "POST", at="account/link/{provider}/", empty=True),
    Rule("account/unlink/<int:pk>/", OWNER, "POST", at="account/unlink/{identity}/"),
    Rule("password/", SIGNED_IN, "GET POST"),
    Rule("password/forgotten/", ANYONE, "GET POST"),
    Rule("password/new/", ANYONE, "GET POST", empty=True),
    Rule("password/new/<slug:key>/<slug:token>", ANYONE, at="password/new/none/none", empty=True),
    Rule("invitation/", ANYONE, "GET POST", empty=True),
    Rule("invitation/<slug:token>", ANYONE, at="invitation/none", empty=True),
    Rule("sign-in/second-step/", ANYONE, "GET POST"),
    Rule("sign-in/second-step/options/", ANYONE, "POST"),
    Rule("sign-in/passkey/", ANYONE, "POST"),
    Rule("sign-in/passkey/options/", ANYONE, "POST"),
    Rule("account/security/", SIGNED_IN),
    Rule("account/security/confirm/", SIGNED_IN, "GET POST"),
    Rule("account/security/confirm/options/", SIGNED_IN, "POST"),
    Rule("account/security/app/", SIGNED_IN, "GET POST"),
    Rule("account/security/app/remove/", SIGNED_IN, "POST"),
    Rule("account/security/passkeys/add/", SIGNED_IN, "GET POST"),
    Rule("account/security/passkeys/add/options/", SIGNED_IN, "POST"),
    Rule(
        "account/security/passkeys/<int:pk>/rename/",
        OWNER,
        "POST",
        at="account/security/passkeys/{passkey}/rename/",
    ),
    Rule(
        "account/security/passkeys/<int:pk>/remove/",
        OWNER,
        "POST",
        at="account/security/passkeys/{passkey}/remove/",
    ),
    Rule("account/security/recovery-codes/", SIGNED_IN, "POST"),
    Rule("tools/", SIGNED_IN),
    Rule("tools/<str:name>/", OWNER, at="tools/{tool_name}/"),
    Rule("requests/", SIGNED_IN),
    Rule("requests/toolset/<int:pk>/", SIGNED_IN, "GET POST", at="requests/toolset/{catalog_toolset}/"),
    Rule("requests/<int:pk>/withdraw/", OWNER, "POST", at="requests/{access_request}/withdraw/"),
    Rule("approvals/", SIGNED_IN),
    Rule("approvals/count/", SIGNED_IN),
    Rule("approvals/<uuid:pk>/", OWNER, at="approvals/{approval}/"),
    Rule("approvals/<uuid:pk>/approve/", OWNER, "POST", at="approvals/{approval}/approve/"),
    Rule("approvals/<uuid:pk>/deny/", OWNER, "POST", at="approvals/{approval}/deny/"),
    Rule("approvals/<uuid:pk>/withdraw/", OWNER, "POST", at="approvals/{approval}/withdraw/"),
    Rule("approvals/<uuid:pk>/lasting/", OWNER, "POST", at="approvals/{approval}/lasting/"),
    Rule("approvals/<uuid:pk>/lasting/end/", OWNER, "POST", at="approvals/{approval}/lasting/end/"),
    Rule("approvals/temporary/<int:pk>/revoke/", OWNER, "POST", at="approvals/temporary/{temporary_approval}/revoke/"),
    Rule("calls/<uuid:pk>/report/", OWNER, "POST", at="calls/{call}/report/"),
    Rule("secrets/", SIGNED_IN),
    Rule("secrets/<slug:name>/", OWNER, "POST", at="secrets/{secret}/"),
    Rule("secrets/<slug:name>/destinations/", OWNER, "POST", at="secrets/{secret}/destinations/"),
    Rule("secrets/<slug:name>/remove/", OWNER, "POST", at="secrets/{secret}/remove/"),
    Rule("accounts/client.json", ANYONE, empty=True),
    Rule("accounts/callback/", ANYONE, empty=True),
    Rule("accounts/<slug:name>/connect/", OWNER, "POST", at="accounts/{account}/connect/"),
    # Only for the person of the mark, and 403 for everybody else.
    Rule("accounts/<slug:name>/<str:mark>/", SIGNED_IN, at="accounts/{account}/none/", empty=True),
    Rule("tokens/", SIGNED_IN, "GET POST"),
    Rule("tokens/<int:pk>/rename/", OWNER, "POST", at="tokens/{token}/rename/"),
    Rule("tokens/<int:pk>/rotate/", OWNER, "POST", at="tokens/{token}/rotate/"),
    Rule("tokens/<int:pk>/revoke/", OWNER, "POST", at="tokens/{token}/revoke/"),
    Rule("calls/", SIGNED_IN),
    Rule("calls/<uuid:pk>/", OWNER, at="calls/{call}/"),
    Rule("calls/<uuid:pk>/file/<slug:what>/", OWNER, at="calls/{call}/file/arguments/"),
    # Of a result with a picture, sound or file; tests/audit/results/test_pages.py has one.
    Rule("calls/<uuid:pk>/part/<int:number>/", OWNER, at="calls/{call}/part/0/", empty=True),
    Rule("calls/<uuid:pk>/cancel/", OWNER, "POST", at="calls/{call}/cancel/", also="audit.cancel_call"),
    Rule("connect/", SIGNED_IN, "GET POST"),
    Rule("apps/", SIGNED_IN),
    Rule("apps/<int:pk>/revoke/", OWNER, "POST", at="apps/{app}/revoke/"),
    # Of an app that an identity provider connected; tests/oauth/test_assertions.py has one.
    Rule("apps/<int:pk>/reconnect/", OWNER, "POST", at="apps/{app}/reconnect/", empty=True),
    Rule("device/", SIGNED_IN, "GET POST"),
    # Of a SAML provider only; tests/identity/test_saml.py has one.
    Rule("sign-in/with/<slug:slug>/saml/acs/", MACHINE, "POST", at="sign-in/with/nothing/saml/acs/", empty=True),
    Rule("sign-in/with/<slug:slug>/saml/finish/", ANYONE, at="sign-in/with/nothing/saml/finish/", empty=True),
    Rule("sign-in/with/<slug:slug>/saml/metadata/", MACHINE, at="sign-in/with/nothing/saml/metadata/", empty=True),
    Rule("oauth/authorize", ANYONE, "GET POST", empty=True),
    Rule("oauth/token", MACHINE, "POST"),
    Rule("oauth/revoke", MACHINE, "POST"),
    Rule("oauth/device", MACHINE, "POST"),
    Rule("oauth/register", MACHINE, "POST"),
    Rule(".well-known/oauth-protected-resource", MACHINE),
    Rule(".well-known/oauth-protected-resource/mcp", MACHINE),
    Rule(".well-known/oauth-authorization-server", MACHINE),
    Rule(".well-known/", MACHINE, "GET POST", empty=True),
    Rule(".well-known/<path:rest>", MACHINE, "GET POST", at=".well-known/nothing", empty=True),
    Rule("scim/v2/Users", MACHINE, "GET POST"),
    Rule("scim/v2/Users/<str:id>", MACHINE, at="scim/v2/Users/nobody"),
    Rule("scim/v2/Groups", MACHINE, "GET POST"),
    Rule("scim/v2/Groups/<str:id>", MACHINE, at="scim/v2/Groups/none"),
    Rule("scim/v2/ServiceProviderConfig", MACHINE),
    Rule("scim/v2/ResourceTypes", MACHINE),
    Rule("scim/v2/ResourceTypes/<str:id>", MACHINE, at="scim/v2/ResourceTypes/User"),
    Rule("scim/v2/Schemas", MACHINE),
    Rule("scim/v2/Schemas/<str:id>", MACHINE, at="scim/v2/Schemas/none"),
    Rule("scim/", MACHINE, "GET POST", empty=True),
    Rule("scim/<path:rest>", MACHINE, "GET POST", at="scim/nothing", empty=True),
    Rule("connect/<slug:key>/", SIGNED_IN, "GET POST", at="connect/curl/"),
    # --- the admin as Django and the theme make it
    Rule("admin/", STAFF),
    Rule("admin/login/", ANYONE),
    Rule("admin/logout/", ANYONE, "POST"),
    Rule("admin/search/", STAFF),
    Rule("admin/password_change/", STAFF, "GET POST"),
    Rule("admin/password_change/done/", STAFF),
    Rule(
        "admin/autocomplete/",
        needs("catalog.view_tool|catalog.change_tool"),
        at="admin/autocomplete/?app_label=catalog&model_name=grant&field_name=tool",
    ),
    Rule("admin/jsi18n/", STAFF),
    Rule("admin/r/<path:content_type_id>/<path:object_id>/", STAFF, at="admin/r/1/1/", empty=True),
    Rule("admin/^(?P<app_label>...)/$", STAFF, at="admin/catalog/", empty=True),
    Rule("admin/(?P<url>.*)$", STAFF, at="admin/no-such-page/", empty=True),
    Rule(
        # Of an account that has nothing that the visitor lacks; tests/access/test_privileges.py has the others.
        "admin/auth/user/<id>/password/",
        needs("auth.change_user"),
        "GET POST",
        at="admin/auth/user/{newcomer}/password/",
    ),
    Rule(
        "admin/auth/user/<int:pk>/second-factors/",
        needs("auth.change_user"),
        "GET POST",
        at="admin/auth/user/{newcomer}/second-factors/",
    ),
    # --- the admin's pages beside the models'
    Rule(
        "admin/catalog/tool/<int:pk>/review/",
        needs("catalog.review_tool"),
        "GET POST",
        at="admin/catalog/tool/{tool}/review/",
    ),
    Rule(
        "admin/catalog/resource/<int:pk>/review/",
        needs("catalog.review_tool"),
        "GET POST",
        at="admin/catalog/resource/{resource}/review/",
    ),
    Rule(
        "admin/catalog/prompt/<int:pk>/review/",
        needs("catalog.review_tool"),
        "GET POST",
        at="admin/catalog/prompt/{prompt}/review/",
    ),
    Rule("admin/review/", needs("catalog.review_tool"), "GET POST"),
    Rule("admin/requests/", needs("catalog.view_accessrequest")),
    Rule("admin/requests/decide/", needs("catalog.view_accessrequest", "catalog.add_grant"), "POST"),
    Rule("admin/requests/<int:pk>/", needs("catalog.view_accessrequest"), at="admin/requests/{access_request}/"),
    Rule(
        "admin/requests/<int:pk>/decide/",
        needs("catalog.view_accessrequest", "catalog.add_grant"),
        "POST",
        at="admin/requests/{access_request}/decide/",
    ),
    Rule(
        "admin/requests/calls/<int:pk>/close/",
        needs("catalog.view_callreport", "catalog.change_callreport"),
        "POST",
        at="admin/requests/calls/{call_report}/close/",
    ),
    Rule("admin/requests/calls/", needs("catalog.view_callreport")),
    Rule("admin/requests/calls/<int:pk>/", needs("catalog.view_callreport"), at="admin/requests/calls/{call_report}/"),
    Rule(
        "admin/catalog/upstream/<int:pk>/tools/",
        needs("catalog.change_upstream"),
        "GET POST",
        at="admin/catalog/upstream/{upstream}/tools/",
    ),
    Rule(
        "admin/catalog/secret/<int:pk>/sign-in/",
        needs("catalog.change_secret"),
        "GET POST",
        at="admin/catalog/secret/{account_pk}/sign-in/",
    ),
    Rule(
        "admin/catalog/importeddocument/<int:number>/again/",
        needs("catalog.add_tool"),
        "GET POST",
        at="admin/catalog/importeddocument/{document}/again/",
    ),
    Rule(
        "admin/catalog/importeddocument/<int:number>/preview/",
        needs("catalog.add_tool"),
        "GET POST",
        at="admin/catalog/importeddocument/{document}/preview/",
    ),
    Rule("admin/catalog/tool/look/", needs("catalog.add_tool"), "POST"),
    Rule(
        "admin/catalog/tool/<int:pk>/look/", needs("catalog.change_tool"), "POST", at="admin/catalog/tool/{tool}/look/"
    ),
    Rule(
        "admin/catalog/tool/function/",
        needs("catalog.add_tool|catalog.change_tool"),
        at="admin/catalog/tool/function/?runner=python_function&name=calculate_sum",
    ),
    Rule(
        "admin/catalog/grant/arguments/",
        needs("catalog.view_tool|catalog.change_tool"),
        at="admin/catalog/grant/arguments/?tool={tool}",
    ),
    Rule(
        "admin/catalog/grant/<int:pk>/put-in-force/",
        needs("catalog.change_grant"),
        "GET POST",
        at="admin/catalog/grant/{trial_grant}/put-in-force/",
    ),
    Rule(
        "admin/catalog/grant/<int:pk>/end-trial/",
        needs("catalog.delete_grant"),
        "GET POST",
        at="admin/catalog/grant/{trial_grant}/end-trial/",
    ),
    Rule(
        "admin/catalog/limit/<int:pk>/put-in-force/",
        needs("catalog.change_limit", "catalog.delete_limit"),
        "GET POST",
        at="admin/catalog/limit/{trial_limit}/put-in-force/",
    ),
    Rule(
        "admin/catalog/limit/<int:pk>/reset/",
        needs("catalog.change_limit"),
        "POST",
        at="admin/catalog/limit/{catalog_limit}/reset/",
    ),
    Rule(
        "admin/catalog/limit/<int:pk>/end-trial/",
        needs("catalog.delete_limit"),
        "GET POST",
        at="admin/catalog/limit/{trial_limit}/end-trial/",
    ),
    Rule(
        "admin/catalog/approvalrule/<int:pk>/put-in-force/",
        needs("catalog.change_approvalrule", "catalog.delete_approvalrule"),
        "GET POST",
        at="admin/catalog/approvalrule/{trial_rule}/put-in-force/",
    ),
    Rule(
        "admin/catalog/approvalrule/<int:pk>/end-trial/",
        needs("catalog.delete_approvalrule"),
        "GET POST",
        at="admin/catalog/approvalrule/{trial_rule}/end-trial/",
    ),
    Rule(
        "admin/catalog/approvalrule/meaning/",
        needs("catalog.add_approvalrule|catalog.change_approvalrule"),
        "POST",
    ),
    Rule(
        "admin/catalog/tool/<int:pk>/duplicate/",
        needs("catalog.add_tool", "catalog.view_tool|catalog.change_tool"),
        "GET POST",
        at="admin/catalog/tool/{tool}/duplicate/",
    ),
    Rule(
        "admin/catalog/tool/<int:pk>/compare/",
        needs("catalog.view_tool|catalog.change_tool"),
        at="admin/catalog/tool/{tool}/compare/",
    ),
    Rule("admin/catalog/tool/<int:pk>/try/", TRIES, "GET POST", at="admin/catalog/tool/{tool}/try/"),
    # One's own runs only: any other is absent.
    Rule("admin/catalog/tool/<int:pk>/try/<uuid:run>/", TRIES, at=f"{TRY}/", empty=True),
    Rule("admin/catalog/tool/<int:pk>/try/<uuid:run>/cancel/", TRIES, "POST", at=f"{TRY}/cancel/", empty=True),
    Rule("admin/catalog/tool/<int:pk>/try/<uuid:run>/answer/", TRIES, "POST", at=f"{TRY}/answer/", empty=True),
    Rule("admin/catalog/tool/<int:pk>/try/<uuid:run>/part/<int:number>/", TRIES, at=f"{TRY}/part/0/", empty=True),
    Rule(
        "admin/catalog/tool/<int:pk>/tests/",
        needs("catalog.view_tool", "catalog.view_tooltest", "catalog.try_tool"),
        "GET POST",
        at="admin/catalog/tool/{tool}/tests/",
    ),
    Rule("admin/people/invitation/import/", needs("auth.add_user"), "GET POST"),
    Rule(
        "admin/people/invitation/<int:pk>/renew/",
        needs("auth.add_user", "people.view_invitation"),
        "POST",
        at="admin/people/invitation/{people_invitation}/renew/",
    ),
    Rule(
        "admin/people/invitation/<int:pk>/revoke/",
        needs("auth.add_user", "people.view_invitation"),
        "POST",
        at="admin/people/invitation/{people_invitation}/revoke/",
    ),
    Rule("admin/catalog/grant/replay/", needs("catalog.add_grant"), "POST"),
    Rule("admin/catalog/limit/replay/", needs("catalog.add_limit"), "POST"),
    Rule("admin/catalog/approvalrule/replay/", needs("catalog.add_approvalrule"), "POST"),
    Rule("admin/rule-examples/", needs("catalog.view_grant|catalog.view_limit|catalog.view_approvalrule")),
    Rule("admin/trials/", needs("catalog.view_grant|catalog.view_limit|catalog.view_approvalrule")),
    Rule("admin/view-as/", needs("auth.view_user", "catalog.view_tool", "catalog.view_grant", "catalog.view_limit")),
    Rule("admin/access/people/", needs("auth.view_user")),
    Rule("admin/access/user/<int:pk>/", needs("auth.view_user"), at="admin/access/user/{user}/"),
    Rule(
        "admin/access/tool/<int:pk>/",
        needs("auth.view_user", "catalog.view_tool", "catalog.view_grant"),
        at="admin/access/tool/{tool}/",
    ),
    Rule(
        "admin/access/toolset/<int:pk>/",
        needs("catalog.view_toolset", "catalog.view_tool"),
        at="admin/access/toolset/{catalog_toolset}/",
    ),
    Rule(
        "admin/access/toolset/<int:pk>/pick/",
        needs("catalog.view_toolset", "catalog.view_tool", "catalog.change_tool"),
        at="admin/access/toolset/{catalog_toolset}/pick/",
    ),
    Rule("admin/access/group/<int:pk>/", needs(*MEMBERS), at="admin/access/group/{auth_group}/"),
    Rule(
        "admin/access/group/<int:pk>/pick/",
        needs(*MEMBERS, "auth.change_user"),
        at="admin/access/group/{auth_group}/pick/",
    ),
    Rule(
        "admin/access/group/<int:pk>/members/",
        needs(*MEMBERS, "auth.change_user"),
        "POST",
        at="admin/access/group/{auth_group}/members/",
    ),
    Rule("admin/imports/", needs("catalog.view_tool")),
    Rule("admin/imports/<int:pk>/", needs("catalog.view_tool"), at="admin/imports/{batch}/"),
    Rule(
        "admin/imports/<int:pk>/undo/",
        needs("catalog.view_tool", "catalog.delete_tool"),
        "GET POST",
        at="admin/imports/{batch}/undo/",
    ),
    Rule("admin/access/give/", GIVES, "GET POST"),
    Rule("admin/access/give/pick/", GIVES),
    Rule(
        "admin/access/grant/<int:pk>/revoke/",
        needs("catalog.view_grant", "catalog.change_grant", "catalog.delete_grant"),
        "GET POST",
        at="admin/access/grant/{catalog_grant}/revoke/",
    ),
    Rule("admin/access/matrix/", MATRIX),
    Rule("admin/access/matrix/<int:toolset>/<int:group>/", MATRIX, at="admin/access/matrix/{catalog_toolset}/0/"),
    Rule(
        "admin/access/matrix/<int:toolset>/<int:group>/set/",
        needs(*GRANTS),
        "POST",
        at="admin/access/matrix/{catalog_toolset}/0/set/",
    ),
    Rule("admin/access/change/", needs(*GRANTS, *CHOOSES), "GET POST"),
    Rule(
        "admin/access/remedy/",
        needs("auth.view_user", "catalog.view_tool", "catalog.view_grant"),
        "POST",
    ),
    Rule("admin/access/pick/", needs(*GRANTS, *CHOOSES)),
    Rule(
        "admin/identity/provider/<int:pk>/test/",
        SUPERUSER,
        "GET POST",
        at="admin/identity/provider/{identity_provider}/test/",
    ),
    Rule("admin/health/", needs("audit.view_call", "catalog.view_tool")),
    Rule("admin/jobs/", CONNECTIONS),
    Rule("admin/settings/", needs("pages.view_settings")),
    Rule("admin/sessions/", CONNECTIONS),
    Rule("admin/examples/grant/", needs("catalog.view_tool", "catalog.add_grant"), "POST"),
    Rule("admin/checklist/hide/", STAFF, "POST"),
    Rule("admin/checklist/show/", STAFF, "POST"),
    Rule("admin/backups/", BACKUPS),
    Rule("admin/backups/confirm/", BACKUPS, "POST"),
    Rule("admin/backups/withdraw/", BACKUPS, "POST"),
    Rule("admin/sessions/disconnect/", needs(*CONNECTIONS.permissions, "access.disconnect_client"), "POST"),
    Rule("admin/sessions/close/", needs(*CONNECTIONS.permissions, "access.disconnect_client"), "POST"),
    Rule(
        "admin/access/accesstoken/<path:object_id>/rotate/",
        needs("access.add_accesstoken", "access.change_accesstoken", "catalog.try_tool_as_other"),
        "GET POST",
        at="admin/access/accesstoken/{access_accesstoken}/rotate/",
    ),
    Rule(
        "admin/scim/scimtoken/<path:object_id>/rotate/",
        SUPERUSER,
        "GET POST",
        at="admin/scim/scimtoken/{scim_scimtoken}/rotate/",
    ),
    Rule("admin/sessions/revoke/", needs(*CONNECTIONS.permissions, "access.change_accesstoken"), "POST"),
    Rule("admin/audit/call/export/", READS),
    Rule("admin/audit/action/export/", needs("audit.view_action|audit.change_action")),
    Rule("admin/audit/call/case-file/", needs("audit.view_call|audit.change_call", "audit.make_casefile"), "GET POST"),
    Rule("admin/audit/call/search/", READS),
    Rule("admin/audit/call/compare/", READS),
    Rule("admin/audit/call/views/", READS),
    Rule("admin/audit/call/views/new/", READS, "POST"),
    # One's own view only: for everybody else in the audit log it is absent.
    Rule("admin/audit/call/views/<int:pk>/", READS, "POST", at="admin/audit/call/views/{view}/", empty=True),
    Rule(
        "admin/audit/call/views/<int:pk>/delete/", READS, "POST", at="admin/audit/call/views/{view}/delete/", empty=True
    ),
    Rule("admin/audit/call/<uuid:pk>/copy/<slug:what>/", READS, at="admin/audit/call/{call}/copy/json/"),
    Rule("admin/audit/call/<uuid:pk>/part/<int:number>/", READS, at="admin/audit/call/{call}/part/0/", empty=True),
    Rule("admin/audit/verification/now/", needs("audit.view_verification|audit.change_verification"), "POST"),
)

MODELS: tuple[Model, ...] = (
    Model("auth.user", special={"add": needs("auth.add_user", "auth.change_user")}),
    Model("auth.group"),
    Model(
        "auth.permission",
        "view",
        special={"view": needs("auth.change_user|auth.change_group|auth.add_user|auth.add_group")},
    ),
    Model("access.accesstoken", "view add change"),
    Model(
        "people.invitation",
        "view add",
        special={
            "view": needs("people.view_invitation"),
            "add": needs("auth.add_user"),
            "delete": needs("auth.add_user"),  # nobody can
        },
    ),
    Model("oauth.client", "view add change"),
    Model("oauth.connectedapp", "view change"),
    Model("scim.scimtoken", "view add change", special=dict.fromkeys(("view", "add", "change", "delete"), SUPERUSER)),
    Model(
        "scim.scimgroup",
        "view",
        special=dict.fromkeys(("view", "add", "change", "delete"), needs("scim.view_scimgroup")),
    ),
    Model(
        "identity.provider",
        special={"view": needs("identity.view_provider"), "add": SUPERUSER, "delete": SUPERUSER},
    ),
    Model(
        "identity.identity",
        "view delete",
        special={"view": needs("identity.view_identity"), "add": SUPERUSER, "delete": SUPERUSER},
    ),
    Model("catalog.tool"),
    Model("catalog.toolset"),
    Model("catalog.resource"),
    Model("catalog.prompt"),
    Model("catalog.grant"),
    Model("catalog.limit"),
    Model("catalog.approvalrule"),
    Model(
        "catalog.approval",
        "view",
        special=dict.fromkeys(("view", "add", "change", "delete"), needs("catalog.view_approval")),
    ),
    Model("catalog.valuelist"),
    Model("catalog.flag"),
    Model("catalog.tooltest"),
    Model("catalog.secret"),
    Model("catalog.upstream"),
    Model(
        "catalog.importeddocument",
        "view add delete",
        special={
            "view": needs("catalog.view_importeddocument|catalog.change_importeddocument|catalog.add_tool"),
            "add": needs("catalog.add_tool"),
        },
    ),
    Model("catalog.task", "view delete"),
    Model("catalog.storedresult", "view delete"),
    Model("audit.call", "view", special={"history": STAFF}),
    Model("audit.action", "view", special={"history": STAFF}),
    Model("audit.checkpoint", "view", special={"history": STAFF}),
    Model("audit.verification", "view", special={"history": STAFF}),
)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("/mcp", "http", "token"),
    Endpoint("/mcp/", "http", "token"),
    Endpoint("/healthz", "http", "anyone"),
    Endpoint("/readyz", "http", "anyone"),
    Endpoint("/ws/mcp", "websocket", "token"),
    Endpoint("/ws/mcp/", "websocket", "token"),
    Endpoint("/ws/live", "websocket", "session"),
)

GENERATED = {
    "": ("view", "GET POST"),
    "add/": ("add", "GET POST"),
    "<path:object_id>/change/": ("view", "GET POST"),
    "<path:object_id>/delete/": ("delete", "GET POST"),
    "<path:object_id>/history/": ("history", "GET"),
    "<path:object_id>/": ("", "GET"),
    "^([^/]+)/history/([^/]+)/$": ("view", "GET POST"),
}
"""What the admin adds to the address of a model, and the verb that it stands for (none for a mere redirect)."""


DOCUMENT = '{"openapi": "3.0.3", "info": {"title": "Census", "version": "1"}, "paths": {}}'


def routes() -> Iterator[str]:
    """Every route of Django's resolver, as it is spelled there."""
    from django.urls import URLPattern, URLResolver, get_resolver

    def walk(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[str]:
        for pattern in patterns:
            spelled = before + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, spelled)
            else:
                # The list of apps grows by itself, and every app's page is the same page.
                yield "admin/^(?P<app_label>...)/$" if spelled.startswith("admin/^(?P<app_label>") else spelled

    yield from walk(get_resolver().url_patterns, "")


def channels_paths() -> set[str]:
    """The paths that `toolhub.routing` names."""
    tree = ast.parse(ROUTING.read_text(encoding="utf-8"))
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {text for text in texts if isinstance(text, str) and text.startswith("/")}


def generated(route: str) -> Rule | None:
    """The rule that a row of MODELS makes for this route."""
    for model in MODELS:
        before = f"admin/{model.label.replace('.', '/')}/"
        if route.startswith(before) and (rest := route.removeprefix(before)) in GENERATED:
            verb, methods = GENERATED[rest]
            own, version = f"{{{model.label.replace('.', '_')}}}", f"{{{model.label.replace('.', '_')}_version}}"
            at = rest.replace("<path:object_id>", own).replace(
                "^([^/]+)/history/([^/]+)/$", f"{own}/history/{version}/"
            )
            return Rule(route, model.who(verb), methods, at=before + at)
    return None


def verb_of(route: str) -> tuple[Model, str] | None:
    """Of an address that the admin made: the model and what is done there."""
    for model in MODELS:
        before = f"admin/{model.label.replace('.', '/')}/"
        if route.startswith(before) and (rest := route.removeprefix(before)) in GENERATED:
            verb = GENERATED[rest][0]
            return (model, "view" if verb == "history" else verb) if verb else None
    return None


def every_rule() -> list[Rule]:
    """Of every route that has one."""
    declared = {rule.route: rule for rule in RULES}
    found = (declared.get(route) or generated(route) for route in routes())
    return [rule for rule in found if rule is not None]


def create_address_values(owner: User) -> dict[str, Any]:
    """One of everything, and what is somebody's own is this user's: what `at` may name."""
    from django.contrib.auth.models import Group, Permission, User
    from django.utils import timezone

    from audit.models import Action, Checkpoint, SavedView, Verification
    from catalog.models import (
        AccessRequest,
        ApprovalRule,
        CallReport,
        Flag,
        ImportBatch,
        ImportedDocument,
        ImportedItem,
        Secret,
        StoredResult,
        Task,
        TemporaryApproval,
        ToolTest,
        Upstream,
    )
    from tests import factories
    from tests.audit import rows
    from toolhub.access.models import AccessToken
    from toolhub.identity.models import Identity, Provider

    toolset = factories.make_toolset("Census", requestable=True)
    token = {"static_headers": {"Authorization": {"secret": "census_secret", "prefix": "Bearer "}}}
    Secret.objects.create(name="census_secret", kind=Secret.Kind.PERSONAL)
    # At an address that is never reached: its pages answer without it.
    account = Secret.objects.create(name="census_account", kind=Secret.Kind.ACCOUNT, url="https://127.0.0.1:9/mcp")
    own = {"static_headers": {"Authorization": {"secret": "census_account", "prefix": "Bearer "}}}
    factories.grant(
        owner,
        factories.make_tool("census_own", runner="http_api", settings={"url": "https://example.com/", **own}),
    )
    tool = factories.make_tool(
        "census_tool", toolset=toolset, runner="http_api", settings={"url": "https://example.com/", **token}
    )
    resource, prompt = factories.make_resource(toolset=toolset), factories.make_prompt(toolset=toolset)
    grant = factories.grant(owner, tool)
    limit = factories.limit("6/m", tool)
    approval_rule = ApprovalRule.objects.create(name="census", asks="person", tool=tool)
    secret = Secret.objects.get(name="census_secret")
    upstream = Upstream.objects.create(name="census", transport="streamable_http", url="https://example.com/mcp")
    document = ImportedDocument.objects.create(name="census", title="Census", source="census.json", pending=DOCUMENT)
    issued, _ = AccessToken.objects.issue(owner, "census")
    app, _tokens = factories.connect_app(owner)
    scim_token, scim_group = factories.make_provisioning()
    # Off, and at an address that is never asked: its pages answer without it.
    provider = Provider.objects.create(slug="census", name="Census", issuer="https://127.0.0.1:9")
    other = Provider.objects.create(slug="census-two", name="Census two", issuer="https://127.0.0.1:9/two")
    identity = Identity.objects.create(
        user=owner, provider=other, issuer=other.issuer, subject="census", linked_by_owner=True
    )
    (call,) = rows.save(rows.build_call(user=owner))
    now = timezone.now()
    models = {
        "newcomer": User.objects.create_user("newcomer"),
        "auth.user": owner,
        "auth.group": Group.objects.create(name="census"),
        "auth.permission": Permission.objects.first(),
        "access.accesstoken": issued,
        "mfa.authenticator": factories.make_passkey(owner),
        "oauth.client": app.client,
        "oauth.connectedapp": app,
        "people.invitation": factories.invite(owner),
        "scim.scimtoken": scim_token,
        "scim.scimgroup": scim_group,
        "identity.provider": provider,
        "identity.identity": identity,
        "catalog.tool": tool,
        "catalog.toolset": toolset,
        "catalog.resource": resource,
        "catalog.prompt": prompt,
        "catalog.grant": grant,
        "catalog.limit": limit,
        "catalog.approvalrule": approval_rule,
        "trial_grant": factories.grant(owner, tool, trial=True),
        "trial_limit": factories.limit("7/m", tool, trial=True, replaces=limit, note="of the trial"),
        "trial_rule": ApprovalRule.objects.create(
            name="census (trial)",
            asks="person",
            toolset=toolset,
            trial=True,
            replaces=approval_rule,
            note="of the trial",
        ),
        "catalog.approval": factories.make_approval(
            call_id=call.pk,
            user=owner,
            tool=tool,
            tool_name=tool.name,
            rule=approval_rule,
            rule_name=approval_rule.name,
            asks="person",
            arguments="{}",
            binding="of the admin",
            expires=now,
        ),
        "catalog.valuelist": factories.make_value_list("census", {owner: ["census"]}),
        "catalog.flag": Flag.objects.create(name="census"),
        "catalog.tooltest": ToolTest.objects.create(tool=tool, name="census"),
        "catalog.secret": secret,
        "account": account,
        "catalog.upstream": upstream,
        "catalog.importeddocument": document,
        "access_request": AccessRequest.objects.create(
            person=owner, kind="toolset", toolset=toolset, name="Census", reason="census"
        ),
        "call_report": CallReport.objects.create(person=owner, call_id=call.pk, name="census_tool", outcome="timeout"),
        # Bound to nothing that is there: whoever decides finds it void.
        "approval": factories.make_approval(
            call_id=call.pk,
            user=owner,
            credential=issued.credential_id,
            credential_name="census",
            client="census 1",
            tool=tool,
            tool_name="census_tool",
            rule_name="census",
            asks="person",
            arguments='{"password":{"$redacted":"hmac-sha256:0","length":9},"table":"census"}',
            binding="census",
            context="census",
            expires=now + timedelta(days=1),
        ),
        "temporary_approval": TemporaryApproval.objects.create(
            user=owner,
            credential=issued.credential_id,
            tool=tool,
            rule_name="census",
            asks="person",
            context="census",
            arguments="{}",
            expires=now + timedelta(days=1),
            given_by=owner,
        ),
        "catalog.task": Task.objects.create(user=owner, tool="census_tool", credential=issued.credential_id),
        "catalog.storedresult": StoredResult.objects.create(user=owner, body=b"text", expires_at=now),
        "audit.call": call,
        "audit.action": Action.objects.create(id=uuid.uuid4(), at=now, actor="a", verb="v", kind="k", link=1),
        "audit.checkpoint": Checkpoint.objects.first(),
        "audit.verification": Verification.objects.first(),
    }
    batch = ImportBatch.objects.create(kind=ImportBatch.Source.FILE, source="census.yaml", made_by="root", number=1)
    ImportedItem.objects.create(batch=batch, tool=tool, digest="of an earlier state, so that an undo leaves it")
    return collect_address_values(models) | {
        "batch": batch.pk,
        "view": SavedView.objects.create(owner=owner, name="census", filters="{}").pk,
    }


def collect_address_values(models: dict[str, Any]) -> dict[str, Any]:
    """What `at` may name, of one row (or None) for every label of MODELS."""
    found: dict[str, Any] = {}
    for label, row in models.items():
        if "." not in label:
            continue
        name = label.replace(".", "_")
        found[name] = row.pk if row is not None else 1
        history = getattr(type(row), "history", None)
        version = history.filter(id=row.pk).first() if history is not None else None
        found[f"{name}_version"] = version.pk if version is not None else 1
    return found | {
        "call": models["audit.call"].pk,
        "document": models["catalog.importeddocument"].pk,
        "secret": models["catalog.secret"].name,
        "account": models["account"].name if "account" in models else "none",
        "account_pk": models["account"].pk if "account" in models else 1,
        "access_request": models["access_request"].pk,
        "call_report": models["call_report"].pk,
        **{name: models[name].pk if name in models else 1 for name in ("trial_grant", "trial_limit", "trial_rule")},
        "approval": models["approval"].pk,
        "temporary_approval": models["temporary_approval"].pk if "temporary_approval" in models else 1,
        "token": models["access.accesstoken"].pk,
        "app": models["oauth.connectedapp"].pk,
        "passkey": models["mfa.authenticator"].pk,
        "provider": models["identity.provider"].slug,
        "identity": models["identity.identity"].pk,
        "tool": models["catalog.tool"].pk,
        "tool_name": models["catalog.tool"].name,
        "toolset": models["catalog.toolset"].pk,
        "resource": models["catalog.resource"].pk,
        "prompt": models["catalog.prompt"].pk,
        "upstream": models["catalog.upstream"].pk,
        "user": models["auth.user"].pk,
        "newcomer": models.get("newcomer", models["auth.user"]).pk,
    }


ABSENT: dict[str, Any] = {
    "call": uuid.UUID(int=7 << 76 | 2 << 62),
    "secret": "no-such-secret",
    "account": "no-such-account",
    "access_request": 999_999_999,
    "call_report": 999_999_999,
    "approval": uuid.UUID(int=4 << 76 | 2 << 62),
    "temporary_approval": 999_999_999,
    "token": 999_999_999,
    "app": 999_999_999,
    "passkey": 999_999_999,
    "identity": 999_999_999,
    "tool": 999_999_999,
    "resource": 999_999_999,
    "prompt": 999_999_999,
    "tool_name": "no_such_tool",
}
"""What never was, in the place of what `create_address_values` made: somebody else's must read the same."""
