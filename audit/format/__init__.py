"""What an entry of the audit log is made of: canonical bytes and their hash chain, times, identifiers."""
