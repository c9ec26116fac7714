"""Signals from this application to the layers above it."""

from __future__ import annotations

from django.dispatch import Signal

revoked = Signal()
"""Some credentials may no longer be valid: drop cached answers about them and ask `bearer.filter_valid` again.

Sent with `credentials` (ids such as "token:12") and `users` (their primary keys), both tuples, either may be empty,
after the commit of the transaction that changed them, in the thread that changed them. With `superseded` True, the
credentials stay valid and their earlier tokens do not: streams and sockets end, and their clients connect again.
"""
