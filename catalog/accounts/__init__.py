"""Accounts that people connect at other services with OAuth: this server is their client."""
