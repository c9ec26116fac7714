"""Tool health: problems of tool definitions that the audit log reveals."""
