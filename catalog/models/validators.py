"""Validation rules for tools, resources and prompts, and for grants and limits."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.apps import apps
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from audit.actions import actor
from catalog.conditions import definitions, periods, words
from catalog.conditions import flags as named_flags
from catalog.conditions import windows as time_windows
from catalog.conditions.mistakes import Mistake
from catalog.models import app_pages
from catalog.models.fields import reject
from catalog.runners import registry
from catalog.runners.base import Words
from catalog.schemas.schema_rules import MAX_DESCRIPTION_CHARACTERS
from toolhub import rates
from toolhub.time_zones import find_zone

if TYPE_CHECKING:
    from catalog.models import ApprovalRule, Grant, Limit, Prompt, Resource, ValueListPart


CAPABILITY = re.compile(r"[A-Za-z0-9_./-]{1,100}")
ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
VARIABLE = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.]{0,98}[A-Za-z0-9_])?")
MIME = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*(\s*;\s*[A-Za-z0-9_-]+=[^\s;,]+)*")
SIZES = re.compile(r"any|[1-9][0-9]{0,4}x[1-9][0-9]{0,4}")
IMAGES = ("png", "jpeg", "jpg", "svg+xml", "webp", "gif", "avif", "x-icon", "vnd.microsoft.icon")
DATA_IMAGE = re.compile(rf"data:image/(?:{'|'.join(map(re.escape, IMAGES))});base64,[A-Za-z0-9+/]+={{0,2}}\Z")
ODD_IN_ADDRESS = re.compile(r"[\s<>\x00-\x20\x7f-\x9f\"'`\\^|{}]")
MAX_BLOB_BYTES = 16 * 1024 * 1024
CONTENT_TYPES = frozenset({"text", "image", "audio", "resource", "resource_link"})


def icons(value: Any) -> None:
    if not isinstance(value, list):
        reject(_("Icons must be a list."))
    for number, icon in enumerate(value, 1):
        if not isinstance(icon, dict) or not isinstance(icon.get("src"), str):
            reject(_('Icon %(number)d needs a "src".'), number=number)
        src = icon["src"]
        if not src.startswith(("https://", "data:")):
            reject(_('Icon %(number)d: "src" must start with https:// or data:.'), number=number)
        if ODD_IN_ADDRESS.search(src):
            odd = _('Icon %(number)d: "src" cannot contain spaces, quotes or angle brackets. Percent-encode them.')
            reject(odd, number=number)
        if src.startswith("data:") and not DATA_IMAGE.match(src):
            types = ", ".join(f"image/{kind}" for kind in IMAGES)
            picture = _("Icon %(number)d: a data: address must contain a picture (%(types)s) in Base64.")
            reject(picture, number=number, types=types)
        if src.startswith("https://") and not _has_host(src):
            reject(_('Icon %(number)d: "src" needs a host after https://.'), number=number)
        unknown = set(icon) - {"src", "mimeType", "sizes", "theme"}
        if unknown:
            stray = _('Icon %(number)d: "%(member)s" is not a known key. Remove it.')
            reject(stray, number=number, member=sorted(unknown)[0])
        kind = icon.get("mimeType", "image/png")
        if not isinstance(kind, str):
            reject(_('Icon %(number)d: "mimeType" must be text.'), number=number)
        if kind.removeprefix("image/") not in IMAGES or not kind.startswith("image/"):
            typed = _('Icon %(number)d: "mimeType" must be one of %(types)s.')
            reject(typed, number=number, types=", ".join(f"image/{name}" for name in IMAGES))
        sizes = icon.get("sizes", [])
        if not isinstance(sizes, list) or not all(isinstance(size, str) and SIZES.fullmatch(size) for size in sizes):
            reject(_('Icon %(number)d: "sizes" must be a list such as ["48x48"] or ["any"].'), number=number)
        if icon.get("theme", "light") not in {"light", "dark"}:
            reject(_('Icon %(number)d: "theme" must be light or dark.'), number=number)


def _has_host(address: str) -> bool:
    try:
        return bool(urlsplit(address).hostname)
    except ValueError:
        return False


def capabilities(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) and CAPABILITY.fullmatch(item) for item in value):
        reject(_('Enter a list of client capabilities, such as ["sampling"].'))


def runner_settings(kind: str, data: Any) -> dict[str, str]:
    """Return the problems by field; empty when the runner accepts its settings."""
    if not isinstance(data, dict):
        return {"settings": str(_("Settings must be a JSON object."))}
    try:
        registry.parse_settings(kind, data)
    except KeyError:
        return {"runner": str(_('There is no tool type "%(name)s".')) % {"name": kind}}
    except ValueError as error:
        return {"settings": str(error)}
    return {}


def not_ready(kind: str, data: Any) -> str | None:
    """Return why a tool with these valid settings could not run on this installation; None when it could."""
    return registry.not_ready(kind, data)


def may_use(kind: str) -> bool:
    """Return whether the signed-in user of the current request may save tools with this runner.

    Outside of a request, as in a command, the answer is always yes.
    """
    described = registry.runners().get(kind)
    user = actor.current_user() if described is not None and described.permission else None
    return user is None or described is None or bool(user.has_perm(described.permission))


def permission_refusal(kind: str) -> Words:
    """Return the sentence for a person for whom `may_use` returns False."""
    return registry.runner(kind).permission_refusal


def uri(value: str) -> None:
    parts = urlsplit(value)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", parts.scheme) or not (parts.netloc or parts.path):
        reject(_("The address needs a scheme, as in docs://handbook."))
    if re.search(r"[\s{}<>\x00-\x1f\x7f\"\\^`|]", value):
        reject(_("An address cannot contain spaces, braces or quotes. Percent-encode them."))
    if parts.scheme == "toolhub":
        reject(_("toolhub:// addresses are reserved. Use another scheme."))


def variables(template: str) -> list[str]:
    """Return the names between braces, in order."""
    return re.findall(r"\{([^{}]*)\}", template)


def uri_template(value: str) -> None:
    names = variables(value)
    if not names:
        reject(_("A template needs at least one {variable}. Without a variable, use the address field."))
    for name in names:
        if not VARIABLE.fullmatch(name):
            odd = _('"%(given)s" is not a supported variable. Use plain {name} (RFC 6570 level 1).')
            reject(odd, given=f"{{{name[:50]}}}")
    if len(set(names)) != len(names):
        reject(_("Each variable can occur only once in a template."))
    bare = re.sub(r"\{[^{}]*\}", "x", value)
    if "{" in bare or "}" in bare:
        reject(_("The braces do not match. Close every brace that you open."))
    uri(bare)


def mime_type(value: str) -> None:
    if not MIME.fullmatch(value):
        reject(_("Enter a MIME type such as text/plain."))


def blob(value: str) -> None:
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValidationError(_("This is not valid Base64."), code="invalid") from None
    if len(data) > MAX_BLOB_BYTES:
        reject(_("The content is larger than 16 MB. Use smaller content."))


def completions(value: Any) -> None:
    if not isinstance(value, dict) or not all(
        isinstance(found, list) and all(isinstance(item, str) for item in found) for found in value.values()
    ):
        reject(_('Enter an object of lists of text, such as {"id": ["north", "south"]}.'))


def resource(row: Resource) -> None:
    """Check the fields of a resource together."""
    if bool(row.uri) == bool(row.uri_template):
        raise ValidationError({"uri": _("Give either an address or an address template.")})
    kept = [name for name in ("text", "blob") if getattr(row, name) is not None]
    made = [name for name in ("function", "upstream") if getattr(row, name)]
    is_page = bool(kept) and made == ["upstream"] and app_pages.is_page(row.uri)
    if row.uri_template and (kept or len(made) != 1):
        raise ValidationError(
            {"function": _("A template needs a function or an upstream server. Leave text and blob empty.")}
        )
    if len(kept) + len(made) != 1 and not (is_page and len(kept) == 1):
        raise ValidationError({"text": _("Give exactly one of text, blob, function and upstream server.")})
    _check_upstream(row, _("Enter the address that the upstream server knows."))
    if row.upstream and row.uri_template and (problem := _find_source_problem(row)):
        raise ValidationError({"source": problem})
    names = variables(row.uri_template)
    for name in row.completions or {}:
        if name not in names:
            raise ValidationError({"completions": _('The template has no variable "%s".') % name})


def _find_source_problem(row: Resource) -> Any:
    """Return why the template cannot be passed on to its upstream server; None when it can."""
    try:
        uri_template(row.source)
    except ValidationError as error:
        return error
    if set(variables(row.source)) != set(variables(row.uri_template)):
        return _("The two templates must have the same variables.")
    return None


def _check_upstream(row: Resource | Prompt, missing: Words) -> None:
    """Check the pair of an upstream server and the name that it knows."""
    if row.upstream and not row.source:
        raise ValidationError({"source": missing})
    if row.source and not row.upstream:
        raise ValidationError({"upstream": _("Enter the name of the upstream server.")})
    if row.upstream and not apps.get_model("catalog", "Upstream").objects.filter(name=row.upstream).exists():
        raise ValidationError({"upstream": _('There is no upstream server "%s".') % row.upstream})


def resource_annotations(value: Any) -> None:
    """Check the annotations of a resource (schema `Annotations`; the time of the last change is not kept)."""
    if not isinstance(value, dict):
        reject(_("Enter an object."))
    if unknown := set(value) - {"audience", "priority"}:
        reject(_('"%(member)s" is not a known key. Remove it.'), member=sorted(unknown)[0])
    audience, priority = value.get("audience", []), value.get("priority", 0)
    if not isinstance(audience, list) or not all(one in ("user", "assistant") for one in audience):
        reject(_('"audience" must be a list of "user" and "assistant".'))
    if isinstance(priority, bool) or not isinstance(priority, int | float) or not 0 <= priority <= 1:
        reject(_('"priority" must be a number from 0 to 1.'))


def prompt_arguments(value: Any) -> None:
    if not isinstance(value, list):
        reject(_("Arguments must be a list."))
    seen: set[str] = set()
    for number, argument in enumerate(value, 1):
        if not isinstance(argument, dict) or not isinstance(argument.get("name"), str):
            reject(_('Argument %(number)d needs a "name".'), number=number)
        name = argument["name"]
        if not ARGUMENT.fullmatch(name):
            odd = _('Argument %(number)d: "%(given)s" is not a valid name. Use letters, digits, underscore and hyphen.')
            reject(odd, number=number, given=name[:50])
        if name in seen:
            reject(_('Argument "%(name)s" is listed twice.'), name=name)
        seen.add(name)
        for member, kind, sentence in (
            ("title", str, _('Argument "%(name)s": "%(member)s" must be text.')),
            ("description", str, _('Argument "%(name)s": "%(member)s" must be text.')),
            ("required", bool, _('Argument "%(name)s": "%(member)s" must be true or false.')),
        ):
            if not isinstance(argument.get(member, kind()), kind):
                reject(sentence, name=name, member=member)
        if len(argument.get("description", "")) > MAX_DESCRIPTION_CHARACTERS:
            large = _('Argument "%(name)s": the description has %(size)s characters. The maximum is %(most)s.')
            size = len(argument["description"])
            reject(large, name=name, size=f"{size:,}", most=f"{MAX_DESCRIPTION_CHARACTERS:,}")
        choices = argument.get("enum", [])
        if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
            reject(_('Argument "%(name)s": "enum" must be a list of text.'), name=name)
        unknown = set(argument) - {"name", "title", "description", "required", "enum"}
        if unknown:
            stray = _('Argument "%(name)s": "%(member)s" is not a known key. Remove it.')
            reject(stray, name=name, member=sorted(unknown)[0])


def prompt_messages(value: Any) -> None:
    if not isinstance(value, list):
        reject(_("Messages must be a list."))
    for number, message in enumerate(value, 1):
        if not isinstance(message, dict) or message.get("role") not in {"user", "assistant"}:
            reject(_('Message %(number)d: "role" must be user or assistant.'), number=number)
        content = message.get("content")
        if not isinstance(content, dict) or content.get("type") not in CONTENT_TYPES:
            typed = _('Message %(number)d: "content" must be an object whose "type" is one of %(types)s.')
            reject(typed, number=number, types=", ".join(sorted(CONTENT_TYPES)))
        elif content["type"] == "text" and not isinstance(content.get("text"), str):
            reject(_('Message %(number)d: content of type text needs a "text".'), number=number)
        elif content["type"] in {"image", "audio"} and not (
            isinstance(content.get("data"), str) and isinstance(content.get("mimeType"), str)
        ):
            bare = _('Message %(number)d: content of type %(type)s needs "data" (Base64) and "mimeType".')
            reject(bare, number=number, type=content["type"])
        elif content["type"] == "resource" and not (
            isinstance(content.get("resource"), dict) and isinstance(content["resource"].get("uri"), str)
        ):
            reject(_('Message %(number)d: content of type resource needs a "resource" with a "uri".'), number=number)
        elif content["type"] == "resource_link" and not (
            isinstance(content.get("uri"), str) and isinstance(content.get("name"), str)
        ):
            reject(_('Message %(number)d: content of type resource_link needs "uri" and "name".'), number=number)


def prompt(row: Prompt) -> None:
    if [bool(row.function), bool(row.messages), bool(row.upstream)].count(True) != 1:
        raise ValidationError({"messages": _("Give exactly one of messages, a function and an upstream server.")})
    _check_upstream(row, _("Enter the name that the upstream server knows."))


RATE = re.compile(r"([0-9]{1,9})/([0-9]{0,6})([smhd])")
AT_A_TIME = re.compile(r"[1-9][0-9]{0,3}")
MAX_PERIOD_SECONDS = 366 * 86_400
ENVIRONMENT = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def rate(value: str) -> None:
    """Check a rate such as 30/m."""
    found = RATE.fullmatch(value)
    if not found:
        raise ValidationError(
            _("Enter a rate such as 30/m: a number of calls per s, m, h or d (or per 2h)."), code="invalid"
        )
    seconds = rates.split(value)[1]
    if not 0 < seconds <= MAX_PERIOD_SECONDS:
        raise ValidationError(_("The period of a rate must be between one second and one year."), code="invalid")


def cost_argument(value: str) -> None:
    """Check the place of an argument, such as /rows."""
    try:
        steps = definitions.parse_path(value)
    except ValueError:
        steps = ()
    if not steps or None in steps:
        raise ValidationError(_("Enter the place of one argument, such as /rows or /filter/rows."), code="invalid")


def zone(value: str) -> None:
    if find_zone(value) is None:
        raise ValidationError(_("Enter a time zone such as Europe/Berlin, or UTC."), code="invalid")


def environments(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(name, str) and ENVIRONMENT.fullmatch(name) for name in value):
        raise ValidationError(
            _("Enter names such as production, staging. Use letters, digits, underscore, hyphen and dot."),
            code="invalid",
        )


def conditions(value: Any) -> None:
    _parse(definitions.parse, value)


def windows(value: Any) -> None:
    _parse(time_windows.parse, value)


def flags(value: Any) -> None:
    _parse(named_flags.parse, value)


def _parse(parse: Callable[[Any], object], value: Any) -> None:
    try:
        parse(value)
    except Mistake as mistake:
        raise ValidationError(words.mistake(mistake), code="invalid") from None


def _filled_fields(row: ApprovalRule | Grant | Limit | ValueListPart, *names: str) -> list[str]:
    """Return the names of the fields that are set.

    The row of the page that contains the form counts, though it may not be saved yet.
    """
    inside = getattr(row, "inside", None)
    return [name for name in names if getattr(row, f"{name}_id") is not None or name == inside]


def subject(row: Grant | ValueListPart) -> str:
    """Return the name of the one field that says whom the row is for. Raises ValidationError unless it is one."""
    found = _filled_fields(row, "user", "group")
    found += ["everyone"] if row.everyone else []
    if len(found) != 1:
        raise ValidationError({found[1] if found else "user": _("Choose exactly one of user, group and everyone.")})
    return found[0]


def grant(row: Grant) -> None:
    targets = _filled_fields(row, *row.TARGETS)
    if len(targets) != 1:
        raise ValidationError(
            {targets[1] if targets else "tool": _("Choose exactly one of tool, toolset, resource and prompt.")}
        )
    subject(row)
    if row.starts and row.ends and row.ends <= row.starts:
        raise ValidationError({"ends": _("The end must be after the start.")})
    # The rules of the grant in whose place it is tried would become its own.
    bound_to = row.pk if row.replaces_id is None else row.replaces_id
    rules = apps.get_model("catalog", "ApprovalRule").everything.filter(grant__isnull=False, grant=bound_to)
    if (rule := rules.first()) is not None:
        needed = _("The approval rule “%s” is for calls that this grant allows. Change or delete that rule first.")
        if row.effect == row.Effect.DENY:
            raise ValidationError({"effect": needed % rule.name})
        if targets[0] not in ("tool", "toolset"):
            raise ValidationError({targets[0]: needed % rule.name})


def limit(row: Limit) -> None:
    targets = _filled_fields(row, "tool", "toolset")
    targets += [name for name in ("all_tools", "method") if getattr(row, name)]
    if len(targets) != 1:
        raise ValidationError(
            {targets[1] if targets else "tool": _("Choose exactly one of tool, toolset, all tools and method.")}
        )
    _limit_measure(row)
    needs = {"user": "user", "each_member": "group", "group_together": "group"}.get(row.scope)
    for field in ("user", "group"):
        given = bool(_filled_fields(row, field))
        if needs == field and not given:
            raise ValidationError(
                {
                    field: _("Choose the user whose calls are counted.")
                    if field == "user"
                    else _("Choose the group whose calls are counted.")
                }
            )
        if needs != field and given:
            raise ValidationError({field: _("The chosen scope does not use this field. Leave it empty.")})


def _limit_measure(row: Limit) -> None:
    """Check that the amount fits what the limit measures. Raises ValidationError."""
    quota = periods.parse(row.rate)
    match row.measure:
        case row.Measure.CALLS:
            if quota is None:
                try:
                    rate(row.rate)
                except ValidationError as error:
                    raise ValidationError({"rate": error}) from None
        case row.Measure.COST:
            if quota is None:
                raise ValidationError({"rate": _("Enter cost units per hour, day, week or month, such as 5000/month.")})
        case row.Measure.RUNNING:
            if not AT_A_TIME.fullmatch(row.rate):
                raise ValidationError({"rate": _("Enter how many calls may run at a time, such as 3.")})
        case _:
            try:
                rate(row.rate)
            except ValidationError:
                raise ValidationError(
                    {"rate": _("Enter how often within which time, such as 5/10m: 5 times in 10 minutes.")}
                ) from None
            if row.rate.startswith("0"):
                raise ValidationError({"rate": _("The first call is no repetition. Enter at least 1.")})
            if row.scope in (row.Scope.TOGETHER, row.Scope.GROUP_TOGETHER):
                raise ValidationError(
                    {"scope": _("One client repeats a call. Choose one user, each user, or each member of a group.")}
                )
    if row.method and (row.measure != row.Measure.CALLS or quota is not None):
        raise ValidationError({"method": _("Requests of a method have rates such as 30/m only.")})
    if row.zone and quota is None:
        raise ValidationError({"zone": _("Only quotas per hour, day, week or month have a time zone. Leave it empty.")})


def approval_rule(row: ApprovalRule) -> None:
    targets = _filled_fields(row, *row.TARGETS)
    targets += ["all_tools"] if row.all_tools else []
    if len(targets) != 1:
        raise ValidationError(
            {targets[1] if targets else "tool": _("Choose exactly one of grant, tool, toolset and all tools.")}
        )
    if row.grant is not None and row.grant.tool_id is None and row.grant.toolset_id is None:
        raise ValidationError({"grant": _("Only calls of tools ask. Choose a grant of a tool or a toolset.")})
    if row.grant is not None and row.grant.effect == row.grant.Effect.DENY:
        raise ValidationError(
            {"grant": _("This grant denies, so that no call needs an approval. Choose one that allows.")}
        )
    if row.asks == row.Asks.APPROVERS and row.group_id is None:
        raise ValidationError({"group": _("Choose the group whose members approve.")})
    if row.asks == row.Asks.PERSON and row.group_id is not None:
        raise ValidationError({"group": _("The rule asks the person who calls. Leave the approvers empty.")})
    if row.accepts_client and row.asks == row.Asks.APPROVERS:
        raise ValidationError({"accepts_client": _("Approvers answer in the browser. Switch this off.")})
    if row.outside_windows and not row.windows:
        raise ValidationError({"outside_windows": _("Enter the time windows outside which the rule asks.")})
