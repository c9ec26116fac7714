"""Live updates for open browser pages: running calls, connecting clients, changes of the audit log."""
