"""Exports of the audit log: rows, one call, lines for a log shipper."""
