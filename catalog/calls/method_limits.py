"""Rate limits that name a method: each of its requests counts, whatever it names, before it is looked at."""

from __future__ import annotations

from audit import outcomes
from audit.types import Credential, Intent
from catalog.calls import call_log
from catalog.calls.prepared_tools import load_catalogue
from catalog.errors import CallNotLogged
from catalog.metering import limits


async def take(credential: Credential, method: str) -> None:
    """Count a request of a method that is not logged. Raises LimitReached, CallNotLogged."""
    try:
        await _take(credential, method)
    except limits.LimitReached as reached:
        raise reached.for_client(None) from None


async def take_logged(what: Intent) -> None:
    """Count a request of a method that is logged, and log it when it is denied. Raises LimitReached, CallNotLogged."""
    try:
        await _take(what.caller.credential, what.method)
    except limits.LimitReached as reached:
        number = await call_log.refuse(what, outcomes.LIMITED, reached.detail, reason=reached.reason)
        raise reached.for_client(number) from None


async def _take(credential: Credential, method: str) -> None:
    catalogue = await load_catalogue()
    if method in catalogue.limits_by_method:
        try:
            await limits.atake_method(catalogue, method, credential)
        except TimeoutError:
            raise CallNotLogged("the limits cannot be counted now") from None
