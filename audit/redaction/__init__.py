"""No secret in clear in the audit log: by name, by value, by schema."""
