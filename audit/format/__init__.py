"""Parts of an entry of the audit log: canonical bytes and their hash chain, times, identifiers."""
