"""Writing of the audit log: queue, group commit, spool, recovery."""
