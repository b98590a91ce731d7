"""What can go wrong between a user and the platform. Light: the command line imports it at every start."""

from __future__ import annotations

from swell.model.errors import InvalidOption

__all__ = ["AccessRefused", "ApiError", "InvalidOption", "NoAnswer", "NoPlatform"]


class NoPlatform(ConnectionError):
    """Nothing answers for the state folder."""


class ApiError(RuntimeError):
    """The platform refused a request, or failed at it."""


class AccessRefused(ApiError):
    """The token is not in force, or its user may not do what was asked."""


class NoAnswer(ApiError):
    """The platform's process lives and does not answer."""
