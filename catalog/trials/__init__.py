"""Rules in trial: decided and logged beside the real answer, not applied. Decisions about them, and what they show."""
