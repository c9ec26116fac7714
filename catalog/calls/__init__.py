"""The call pipeline: decide, limit, validate, log, run, log, answer."""
