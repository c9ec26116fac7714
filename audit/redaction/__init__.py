"""Redaction of secrets in the audit log: by name, by value, by schema."""
