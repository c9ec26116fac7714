"""Queries of pages on the audit log, with bounded cost whatever its size."""
