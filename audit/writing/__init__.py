"""From an attempt to a durable row: queue, group commit, spool, recovery."""
