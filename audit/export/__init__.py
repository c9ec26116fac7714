"""The audit log taken elsewhere: rows, one call, a line for a log shipper."""
