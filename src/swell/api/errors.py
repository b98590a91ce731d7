"""What can go wrong between a user and the platform. Light: the command line imports it at every start."""

from __future__ import annotations


class InvalidOption(ValueError):
    """An option of `swell up` cannot be met; the text names it, the rule and the remedy."""


class NoPlatform(ConnectionError):
    """Nothing answers for the state folder."""


class ApiError(RuntimeError):
    """The platform refused a request, or failed at it."""


class AccessDenied(ApiError):
    """The token is not in force, or its user may not do what was asked."""


class PlatformSilent(ApiError):
    """The platform's process lives and does not answer."""
