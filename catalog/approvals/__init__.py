"""Approvals: what a call is bound to while it waits for a person, requests, decisions, and the inbox of approvers."""
