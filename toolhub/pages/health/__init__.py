"""Tool health: what the audit log says about definitions that need work."""
