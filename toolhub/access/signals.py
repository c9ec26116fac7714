"""News from this app to whoever listens above it."""

from __future__ import annotations

from django.dispatch import Signal

revoked = Signal()
"""Some credentials may no longer be good: forget what is cached about them and ask `bearer.still_valid` again.

Sent with `credentials` (ids such as "token:12") and `users` (their primary keys), both tuples, either may be empty,
after the transaction that changed them has been committed; in the thread that changed them.
"""
