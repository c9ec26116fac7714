from __future__ import annotations

import json
from hashlib import sha256
from threading import Barrier, BrokenBarrierError, Thread

import pytest
from django.db import DatabaseError, connections, transaction

from audit.actions import ledger
from audit.format import chain
from audit.integrity import verification
from audit.models import Action, Link
from tests.audit.stores import AuditStore


def test_a_link_covers_everything_in_it_and_the_link_before() -> None:
    links = chain.Chain(101)
    first = links.add(chain.BEGIN, "a" * 32, "c" * 64)
    second = links.add(chain.FINISH, "a" * 32, "d" * 64)
    assert chain.split_link_id(first) == (101, 1)
    assert chain.split_link_id(second) == (101, 2)
    hashes = [row[6] for row in links.rows]
    assert hashes[0] == sha256(f"101 1 {'0' * 64} begin {'a' * 32} {'c' * 64}".encode()).hexdigest()
    assert hashes[1] == chain.link_hash(101, 2, hashes[0], chain.FINISH, "a" * 32, "d" * 64)


def test_a_transaction_that_was_not_committed_leaves_no_trace_in_the_hash_chain() -> None:
    links = chain.Chain(101)
    links.add(chain.BEGIN, "a" * 32, "c" * 64)
    head = links.head
    links.rows = []
    links.add(chain.FINISH, "a" * 32, "d" * 64)
    links.roll_back_to(head)
    assert (links.head, links.rows) == (head, [])


def test_the_canonical_bytes_are_those_of_a_json_list() -> None:
    values = ["ü", 1, None, 'a"b', "\u2028"]
    assert (
        chain.content(values)
        == sha256(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()
    )


def test_values_that_move_from_one_column_to_the_next_change_the_content() -> None:
    assert chain.content(["ab", "c"]) != chain.content(["a", "bc"])


def test_an_action_is_logged_with_its_change_or_not_at_all(audit_store: AuditStore) -> None:
    with transaction.atomic():
        ledger.write("root", "deleted", "tool", "1", {"name": "sum"}, None)
        transaction.set_rollback(True)
    assert Action.objects.count() == Link.objects.count() == 0
    with transaction.atomic():
        ledger.write("root", "added", "tool", "1", None, {"name": "sum", "position": 100})
        ledger.write("root", "added", "grant", "2", None, {"who": "everyone"})
    ledger.write("root", "changed", "tool", "1", {"name": "sum"}, {"name": "total"})
    assert [(row.verb, row.target, row.before, row.after) for row in Action.objects.order_by("id")] == [
        ("added", "1", "", '{"name":"sum","position":100}'),
        ("added", "2", "", '{"who":"everyone"}'),
        ("changed", "1", '{"name":"sum"}', '{"name":"total"}'),
    ]
    assert verification.run(store=False).problems == []


@pytest.mark.postgres
def test_actions_in_transactions_at_the_same_time_wait_for_nobody(postgres_store: AuditStore) -> None:
    """Each holds its transaction open until all have written: with one lock for all they would wait for ever."""
    together = Barrier(chain.ACTION_CHAINS, timeout=60)
    failures: list[Exception] = []

    def act(number: int) -> None:
        try:
            with transaction.atomic():
                ledger.write("root", "changed", "tool", str(number), None, None)
                together.wait()
        except (BrokenBarrierError, DatabaseError) as error:
            failures.append(error)
        finally:
            connections["default"].close()

    threads = [Thread(target=act, args=(number,)) for number in range(chain.ACTION_CHAINS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert failures == []
    assert Action.objects.count() == chain.ACTION_CHAINS
    ledger.write("root", "changed", "tool", "later", None, None)
    assert verification.run(store=False).problems == []
