"""What a user may have got wrong. Each text names the thing, the rule and the remedy."""

from __future__ import annotations


class InvalidJob(ValueError):
    """The request cannot be a job."""


class KeyInUse(ValueError):
    """The idempotency key was used before, for another request."""


class TooManyOpenJobs(ValueError):
    """A tenant has as many jobs that have not ended as it may."""


class WrongPhase(ValueError):
    """What is asked for cannot be done with a job in its phase."""


class Unavailable(RuntimeError):
    """The platform cannot take the request now; whether it took it is not known."""


class UnknownJob(LookupError):
    """No job has this id."""


class UnknownNode(LookupError):
    """No node of this name is there."""


class NodeInUse(ValueError):
    """What is asked for cannot be done with a node in its state."""


class UnknownBooking(LookupError):
    """No booking has this id."""


class BookingRefused(ValueError):
    """Devices cannot be booked at that time: a promise, a job's limit or another booking is in the way."""


class InvalidOption(ValueError):
    """An option of a platform or a host cannot be met; the text names it, the rule and the remedy."""


class InvalidInput(ValueError):
    """A file that was given to a simulation, or an option about it, cannot be used."""


class Unwritable(Unavailable):
    """What must be kept cannot be written now, and was not; later it may be: the disk is full, say."""
