"""Small faults, each in code that keeps a promise, and the tests that must see it.

A fault is one change of one place. `python -m tests.faults` plants each alone, in a copy of the project.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    promise: str
    """What the code must do, as a sentence that the fault makes untrue."""
    path: str
    old: str
    """Text that is in the file exactly once."""
    new: str
    tests: str
    """Files and options for pytest."""


FAULTS: tuple[Fault, ...] = (
    # --- tasks ----------------------------------------------------------------------------------------------------
    Fault(
        "the answers of another user are not stored",
        "catalog/calls/tasks.py",
        "        row = _find(credential, number)\n        if row is None or row.status",
        "        row = Task.objects.filter(id=number).first()\n        if row is None or row.status",
        "tests/catalog/test_tasks.py tests/server/test_tasks.py",
    ),
    Fault(
        "another user's task is not read",
        "catalog/calls/tasks.py",
        "    row = Task.objects.filter(id=number, user_id=credential.user_id).first()\n",
        "    row = Task.objects.filter(id=number).first()\n",
        "tests/catalog/test_tasks.py tests/server/test_tasks.py",
    ),
    Fault(
        "another user's task is not cancelled",
        "catalog/calls/tasks.py",
        "    if await get(credential, number) is None:\n        return None\n",
        "",
        "tests/catalog/test_tasks.py tests/server/test_tasks.py",
    ),
    Fault(
        "of two answers at the same time both count",
        "catalog/calls/tasks.py",
        "        return changed == 1\n",
        "        return True\n",
        "tests/catalog/test_tasks.py",
    ),
    Fault(
        "an ended task stays as it is",
        "catalog/calls/tasks.py",
        "return await _update(Q(id=task_id, status__in=OPEN_STATUSES), status=status, input_requests={}, **values)",
        "return await _update(Q(id=task_id), status=status, input_requests={}, **values)",
        "tests/catalog/test_tasks.py",
    ),
    # --- tokens ---------------------------------------------------------------------------------------------------
    Fault(
        "a look-up that began before a revocation is not cached after it",
        "toolhub/access/bearer.py",
        "            if changes != self._changes:\n                return\n",
        "",
        "tests/access/test_bearer.py",
    ),
    Fault(
        "a token expires while the database is away",
        "toolhub/access/bearer.py",
        "        if expires is not None and time.time() >= expires:\n            owner",
        "        if False:\n            owner",
        "tests/access/test_bearer.py",
    ),
    Fault(
        "a cached token expires to the second",
        "toolhub/access/bearer.py",
        "        return None if expires is not None and time.time() >= expires else known.credential",
        "        return known.credential",
        "tests/access/test_bearer.py",
    ),
    Fault(
        "a token is believed without the database for ten minutes at most",
        "toolhub/access/bearer.py",
        "if known is None or now >= known.stale_until:",
        "if known is None:",
        "tests/access/test_bearer.py",
    ),
    Fault(
        "streams do not outlive their token when the database is away for long",
        "toolhub/access/bearer.py",
        "return set(credential_ids) if time.monotonic() - self._reached < STALE_SECONDS else set()",
        "return set(credential_ids)",
        "tests/access/test_bearer.py",
    ),
    Fault(
        "nobody hears of a resource that they may no longer read",
        "toolhub/server/subscribers.py",
        "            if audience.may_read(uri):\n                self.announce(audience, uri)",
        "            self.announce(audience, uri)",
        "tests/server/test_changes.py",
    ),
    # --- the gate -------------------------------------------------------------------------------------------------
    Fault(
        "TOOLHUB_ALLOWED_HOSTS=* is no permission for web pages",
        "toolhub/transports/guard.py",
        'tuple(host for host in hosts if host != "*")',
        "hosts",
        "tests/transports/test_guard.py",
    ),
    Fault(
        "an origin has the scheme http or https",
        "toolhub/transports/guard.py",
        '            parts.scheme not in {"http", "https"}\n            or lowered',
        "            lowered",
        "tests/transports/test_guard.py",
    ),
    Fault(
        "a parameter's header must be sent once",
        "toolhub/transports/guard.py",
        'if name in SINGLE_HEADERS or name.startswith("mcp-param-"):',
        "if name in SINGLE_HEADERS:",
        "tests/transports/test_guard.py",
    ),
    # --- secrets --------------------------------------------------------------------------------------------------
    Fault(
        "a secret of the arguments is hidden in the sentence of a refusal",
        "audit/redaction/redactor.py",
        "    if extra:\n        text = SecretValues(extra).mask(text, current.inline)\n",
        "    if extra:\n",
        "tests/audit/test_redaction.py tests/audit/test_canary.py tests/test_echoes.py",
    ),
    Fault(
        "half of a secret at the cut of a sentence is hidden",
        "audit/redaction/redactor.py",
        "            text = _hide_beginnings(text, secret, current)\n",
        "            pass\n",
        "tests/audit/test_redaction.py",
    ),
    Fault(
        "a member beside a marker is searched",
        "audit/redaction/redactor.py",
        '    if not isinstance(value, dict) or len(value) != 2 or type(value.get("length")) is not int:',
        '    if not isinstance(value, dict) or type(value.get("length")) is not int:',
        "tests/audit/test_redaction.py",
    ),
    Fault(
        "a secret is hidden in a question to the client",
        "catalog/calls/masking.py",
        "        return await self._channel.ask(masked)",
        "        return await self._channel.ask(requests)",
        "tests/catalog/test_masking.py",
    ),
    Fault(
        "a secret is hidden in a question that is asked by the result",
        "catalog/calls/masking.py",
        "        asked.requests = {key: (method, _mask_json(values, params))",
        "        asked.requests = {key: (method, params)",
        "tests/catalog/test_masking.py",
    ),
    Fault(
        "a secret is hidden in a message of progress",
        "catalog/calls/masking.py",
        "message and redactor.mask_values(self._values, message)",
        "message",
        "tests/catalog/test_masking.py",
    ),
    Fault(
        "a secret is hidden in the error of an upstream",
        "catalog/calls/masking.py",
        "error.code, redactor.mask_values(values, error.message), _mask_json(values, error.data)",
        "error.code, error.message, error.data",
        "tests/catalog/test_masking.py",
    ),
    # --- the audit log while the database or the disk is away -------------------------------------------------------
    Fault(
        "an end that neither the database nor the spool takes is not answered as logged",
        "audit/writing/queue.py",
        "            wake(ends, str(error))\n",
        "            wake(ends)\n",
        "tests/audit/test_store_away.py tests/audit/test_spool.py",
    ),
    Fault(
        "an end that neither the database nor the spool takes is written later",
        "audit/writing/queue.py",
        "                self.waiting.extend(ends)\n",
        "                pass\n",
        "tests/audit/test_store_away.py tests/audit/test_spool.py",
    ),
    Fault(
        "half a line on a full disk does not eat the next outcome",
        "audit/writing/spool.py",
        "            os.ftruncate(descriptor, before)  # remove a partial line\n",
        "",
        "tests/audit/test_store_away.py tests/audit/test_spool.py",
    ),
    Fault(
        "an outcome in the spool survives a power cut",
        "audit/writing/spool.py",
        "                view = view[os.write(descriptor, view) :]\n            os.fsync(descriptor)\n",
        "                view = view[os.write(descriptor, view) :]\n",
        "tests/audit/test_store_away.py tests/audit/test_spool.py",
    ),
    Fault(
        "the name of a new spool survives a power cut",
        "audit/writing/spool.py",
        "                os.fsync(parent)  # the file's directory entry must be durable as well\n",
        "                pass\n",
        "tests/audit/test_store_away.py tests/audit/test_spool.py",
    ),
    Fault(
        "a spool has a bound",
        "audit/writing/spool.py",
        "            if self.size + len(text) > MAX_SPOOL_BYTES:",
        "            if False:",
        "tests/audit/test_spool.py",
    ),
    Fault(
        "entries that are added while a spool is replayed stay in it",
        "audit/writing/spool.py",
        "            if self.size > size:\n",
        "            if False:\n",
        "tests/audit/test_spool.py",
    ),
    Fault(
        "a spool that another process replays is not replayed twice",
        "audit/writing/spool.py",
        "            yield os.fstat(descriptor).st_nlink > 0\n",
        "            yield True\n",
        "tests/audit/test_spool.py tests/audit/test_recovery.py",
    ),
    Fault(
        "calls whose outcome may still be in a spool do not become unknown",
        "audit/writing/recovery.py",
        "        for number in sorted(dead - held):",
        "        for number in sorted(dead):",
        "tests/audit/test_recovery.py tests/audit/test_store_away.py tests/audit/test_spool.py",
    ),
    Fault(
        "an outage is not taken for the death of another machine's process",
        "audit/writing/recovery.py",
        "if before is None or before[0] != beat or before[1] < writer.available_since:",
        "if before is None or before[0] != beat:",
        "tests/audit/test_recovery.py tests/audit/test_store_away.py",
    ),
    Fault(
        "a process that lives keeps its calls",
        "audit/writing/recovery.py",
        "            return not leases.is_running(pid, born)\n",
        "            return True\n",
        "tests/audit/test_recovery.py",
    ),
    Fault(
        "a later process with the same number is not taken for a dead one",
        "audit/writing/leases.py",
        "    return process_start(pid) == start\n",
        "    return True\n",
        "tests/audit/test_recovery.py",
    ),
    # --- the hash chain ---------------------------------------------------------------------------------------------
    Fault(
        "a prune is logged and covered before its first row goes",
        "audit/retention.py",
        "    checkpoints.sign_before(SharedStore())\n",
        "",
        "tests/audit/test_retention.py tests/audit/test_keys.py",
    ),
    Fault(
        "a forged prune does not hide a missing call",
        "audit/integrity/links.py",
        "            if is_further and self._vouches_for(link):",
        "            if is_further:",
        "tests/audit/test_forgeries.py",
    ),
    Fault(
        "only authentic heads are signed",
        "audit/integrity/checkpoints.py",
        "        if keys.is_authentic(chain.mac_text(writer, sequence, digest), mac):\n            return int",
        "        if True:\n            return int",
        "tests/audit/test_forgeries.py",
    ),
    Fault(
        "a chain of changes continues only behind an authentic entry",
        "audit/actions/ledger.py",
        "        if _is_ours(number, sequence, last):",
        "        if True:",
        "tests/audit/test_forgeries.py",
    ),
    Fault(
        "a checkpoint follows the one before",
        "audit/integrity/verification.py",
        "        if row.previous != previous.get(rank, chain.START_HASH):",
        "        if False:",
        "tests/audit/test_forgeries.py tests/audit/test_verify.py",
    ),
    Fault(
        "a leaked key cannot sign with an earlier time",
        "audit/integrity/verification.py",
        "        elif rank > newest_rank and latest_at > newest_since + KEY_OVERLAP_MS:",
        "        elif rank > newest_rank and checkpoint.at > newest_since + KEY_OVERLAP_MS:",
        "tests/audit/test_keys.py",
    ),
    Fault(
        "a call outside the hash chain is found",
        "audit/integrity/verification.py",
        "            if not _link_matches(links, begin, id.hex, BEGIN_KINDS) or _is_copy(id, stored_id):",
        "            if _is_copy(id, stored_id):",
        "tests/audit/test_forgeries.py",
    ),
    # --- who may what ---------------------------------------------------------------------------------------------
    Fault(
        "a token reaches only the tasks and results of its toolsets",
        "catalog/policy/rules.py",
        "return origin is not None and not requester.toolset_ids.isdisjoint(origin)",
        "return origin is None or not requester.toolset_ids.isdisjoint(origin)",
        "tests/catalog/test_tasks.py tests/catalog/test_stored_results.py tests/catalog/test_policy.py",
    ),
    Fault(
        "a grant ends at its end",
        "catalog/policy/rules.py",
        "(rule.ends is None or now < rule.ends)",
        "(rule.ends is None or now <= rule.ends)",
        "tests/catalog/test_policy.py tests/catalog/test_visibility.py",
    ),
    Fault(
        "a grant begins at its beginning",
        "catalog/policy/rules.py",
        "(rule.starts is None or rule.starts <= now)",
        "(rule.starts is None or rule.starts < now)",
        "tests/catalog/test_policy.py tests/catalog/test_visibility.py",
    ),
    Fault(
        "a denial overrides a permission that came before it",
        "catalog/policy/rules.py",
        '            if rule.effect == "deny":\n',
        '            if rule.effect == "deny" and allowed is None:\n',
        "tests/catalog/test_policy.py tests/catalog/test_visibility.py",
    ),
    Fault(
        "an inactive user has no tools",
        "catalog/policy/rules.py",
        "    if not member.is_active:\n        return [], INACTIVE\n",
        "",
        "tests/catalog/test_policy.py tests/catalog/test_visibility.py",
    ),
    Fault(
        "a grant counts only in its environments",
        "catalog/policy/rules.py",
        "return not rule.environments or environment in rule.environments",
        "return True",
        "tests/catalog/test_policy.py tests/catalog/test_visibility.py",
    ),
    Fault(
        "what a token sees is not kept for another token of the same user",
        "catalog/policy/visibility.py",
        "    key = (credential.user_id, credential.toolset_ids)\n",
        "    key = (credential.user_id, None)\n",
        "tests/catalog/test_policy.py tests/catalog/test_visibility.py tests/access/test_bearer.py",
    ),
    Fault(
        "what a user sees changes when a grant ends",
        "catalog/policy/visibility.py",
        "known[0] is catalogue and now < known[2] and",
        "known[0] is catalogue and",
        "tests/catalog/test_policy.py tests/catalog/test_visibility.py",
    ),
    Fault(
        "a stored result belongs to one user",
        "catalog/calls/stored_results.py",
        "StoredResult.objects.filter(id=number, user_id=credential.user_id, ",
        "StoredResult.objects.filter(id=number, ",
        "tests/catalog/test_stored_results.py",
    ),
    Fault(
        "a stored result ends",
        "catalog/calls/stored_results.py",
        ", expires_at__gt=timezone.now()).first()",
        ").first()",
        "tests/catalog/test_stored_results.py",
    ),
    Fault(
        "staff give only permissions that they hold",
        "toolhub/access/privileges.py",
        'if action == "pre_add" and (unheld := find_unheld(actor, pk_set or ())):',
        "if unheld := find_unheld(actor, ()):",
        "tests/access/test_privileges.py",
    ),
    Fault(
        "only a superuser gives the status of staff",
        "toolhub/access/privileges.py",
        'FLAGS = ("is_staff", "is_superuser")',
        'FLAGS = ("is_superuser",)',
        "tests/access/test_privileges.py",
    ),
    Fault(
        "an account above one's own is not deactivated",
        "toolhub/access/privileges.py",
        "    if is_above(actor, stored):\n        raise PermissionDenied(account_refusal(stored))\n",
        "",
        "tests/access/test_privileges.py",
    ),
    Fault(
        "staff do not set the email of somebody with more access",
        "toolhub/access/privileges.py",
        'IDENTITY = frozenset({"username", "email", "password"})',
        'IDENTITY = frozenset({"username", "password"})',
        "tests/access/test_privileges.py",
    ),
    Fault(
        "a token is extended only by those who may act as its owner",
        "toolhub/access/privileges.py",
        "        or token.expires > stored.expires\n",
        "",
        "tests/access/test_privileges.py",
    ),
    # --- where a request comes from -------------------------------------------------------------------------------
    Fault(
        "an address further left than an untrusted hop counts for nothing",
        "toolhub/client_address.py",
        "            if not self.trusts(hop):\n                break\n",
        "",
        "tests/test_client_address.py",
    ),
    Fault(
        "a peer that is no proxy is not believed",
        "toolhub/client_address.py",
        "        if address is None or not self.trusts(address):\n",
        "        if address is None:\n",
        "tests/test_client_address.py",
    ),
    Fault(
        "an address of IPv6 counts with its network",
        "toolhub/client_address.py",
        "COUNTED_IPV6_PREFIX = 64",
        "COUNTED_IPV6_PREFIX = 128",
        "tests/test_client_address.py tests/access/test_bearer.py",
    ),
    Fault(
        "an IPv4 address that is written as IPv6 is the same",
        "toolhub/client_address.py",
        "return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address",
        "return address",
        "tests/test_client_address.py",
    ),
    # --- the ways out ---------------------------------------------------------------------------------------------
    Fault(
        "an address is not kept for ever",
        "toolhub/egress/names.py",
        "        if self._clock() >= found[0]:\n",
        "        if False:\n",
        "tests/test_names.py tests/test_egress.py",
    ),
    Fault(
        "one domain that hangs does not take all look-ups",
        "toolhub/egress/names.py",
        "            if self._running.get(domain, 0) >= MAX_LOOKUPS_PER_DOMAIN:\n                continue\n",
        "",
        "tests/test_names.py tests/test_egress.py",
    ),
    Fault(
        "a look-up has a deadline",
        "toolhub/egress/names.py",
        "            async with asyncio.timeout(max(0.0, remaining)):\n                return await answer\n",
        "            return await answer\n",
        "tests/test_names.py tests/test_egress.py",
    ),
    Fault(
        "a private address inside an IPv6 address is private",
        "toolhub/egress/addresses.py",
        "        address = address.ipv4_mapped or address\n",
        "",
        "tests/test_names.py tests/test_egress.py",
    ),
    Fault(
        "a network of the list covers its port only",
        "toolhub/egress/addresses.py",
        "return (self.port is None or self.port == port) and address in",
        "return address in",
        "tests/test_names.py tests/test_egress.py",
    ),
    Fault(
        "a hard link is not served",
        "catalog/workspace.py",
        "            if facts.st_nlink > 1:\n",
        "            if False:\n",
        "tests/catalog/test_workspace_attacks.py",
    ),
    Fault(
        "what a child inherits is on a list",
        "catalog/processes/launch.py",
        '"environment": dict.fromkeys(order.folder_variables, folder) | dict(order.environment),',
        '"environment": dict(os.environ) | dict.fromkeys(order.folder_variables, folder) | dict(order.environment),',
        "tests/runners/test_command.py tests/runners/test_isolated.py",
    ),
    # --- how a call ends ------------------------------------------------------------------------------------------
    Fault(
        "a function that ends itself by a cancellation has failed",
        "catalog/calls/execution.py",
        "if isinstance(error, asyncio.CancelledError) and error.args and error.args[0] != DEADLINE_REASON:",
        "if isinstance(error, asyncio.CancelledError):",
        "tests/e2e/test_raising.py",
    ),
    Fault(
        "an error that cannot be read is still logged as a failure",
        "catalog/calls/execution.py",
        "    except BaseException:  # noqa: BLE001 - formatting",
        "    except ZeroDivisionError:  # noqa: BLE001 - formatting",
        "tests/e2e/test_raising.py",
    ),
)
