"""What can be wrong with a trace."""

from __future__ import annotations

from swell.model.errors import InvalidInput


class TraceError(InvalidInput):
    """The file as a whole cannot be used; the text names it, the rule and the remedy."""


class Malformed(ValueError):
    """A line that breaks a rule of its format: the text says which, then perhaps a colon and the detail."""


class Outside(ValueError):
    """A sound line about something that is no job for devices: a job that asks none, or never ran."""
