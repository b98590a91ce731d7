"""What can be wrong with throughput profiles."""

from __future__ import annotations

from swell.model.errors import InvalidInput


class ProfileError(InvalidInput):
    """A table cannot be used; the text names the place, the rule and the remedy."""


class UnknownProfile(InvalidInput):
    """No such set, model or global batch; the text names those there are."""
