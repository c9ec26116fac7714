"""What open browser pages hear: calls as they happen, a client as it connects."""
