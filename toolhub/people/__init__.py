"""How people get in: invitations, imports of many people, forgotten passwords, and the mails of all three."""
