"""`/approvals/ID/lasting/`: an approver lets exactly one call run without approval from then on, and ends that."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from catalog.approvals import lasting
from catalog.approvals.decisions import Refused
from catalog.approvals.lasting import NotPossible
from catalog.views.approvals import describe_refusal, require_seen, show_request
from catalog.views.lasting_grants import LastingForm, describe_problem
from toolhub.invisible import show


@login_required
@never_cache
@require_POST
def make(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Approve a request if it waits, and give its person lasting access to exactly this call."""
    user, row = cast(User, request.user), require_seen(request, pk)
    if not lasting.may_make(row, user):
        raise Http404
    form = LastingForm(request.POST)
    if not form.is_valid():
        return show_request(request, row, lasting_form=form)
    try:
        grant = lasting.make(pk, user, ends=form.ends, note=form.cleaned_data["note"] or _note(row.call_id))
    except NotPossible as error:
        messages.error(request, describe_problem(error.code))
    except ValidationError as error:
        reason = " ".join(error.messages)
        messages.error(request, _("No grant can be for exactly these arguments: %(reason)s") % {"reason": reason})
    except Refused as refused:
        if refused.row is None:
            raise Http404 from None
        messages.error(request, describe_refusal(refused.code, refused.row))
    else:
        details = {"number": grant.pk, "user": show(row.user.get_username())}
        text = _("From now on, exactly this call of %(user)s runs without approval: grant %(number)s.")
        messages.success(request, text % details)
    return redirect("catalog:approval", pk=pk)


@login_required
@never_cache
@require_POST
def end(request: HttpRequest, pk: UUID) -> HttpResponse:
    """End the lasting grant that was made of a request."""
    if not lasting.end(pk, cast(User, request.user)):
        raise Http404
    messages.success(request, _("The lasting grant has ended. The call asks for approval again."))
    return redirect("catalog:approval", pk=pk)


def _note(call_id: UUID) -> str:
    return _("Made of the approval of call %(id)s") % {"id": call_id}
