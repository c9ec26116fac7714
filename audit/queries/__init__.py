"""Questions that pages ask the audit log, bounded whatever its size."""
