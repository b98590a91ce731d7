"""What a user may have got wrong. Each text names the thing, the rule and the remedy."""

from __future__ import annotations


class InvalidJob(ValueError):
    """The request cannot be a job."""


class UnknownJob(LookupError):
    """No job has this id."""


class InvalidInput(ValueError):
    """A file that was given to a simulation, or an option about it, cannot be used."""


class Unwritable(RuntimeError):
    """What must be kept cannot be written now; later it may be: the disk is full, say."""
