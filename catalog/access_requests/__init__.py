"""Requests of people: access to a toolset or a tool, and a look at a call that failed; decisions about both."""
