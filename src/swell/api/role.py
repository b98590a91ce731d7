"""What a user may do. A module of its own: a simulation reads users' quotas, and needs no verbs."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """Each may do what the ones before it may."""

    VIEW = 1
    SUBMIT = 2  #: jobs of the own tenant, and cancel these
    OPERATE = 3

    @property
    def word(self) -> str:
        """Name of the role as users write it."""
        return self.name.lower()
