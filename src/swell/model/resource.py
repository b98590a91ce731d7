"""The resources of a machine that its jobs share."""

from __future__ import annotations

from enum import StrEnum


class Resource(StrEnum):
    """One of the four resources that are measured of each job, and of which a policy may give shares."""

    CPU = "cpu"
    MEMORY = "memory"
    BLOCK_IO = "block_io"
    NETWORK = "network"

    @property
    def noun(self) -> str:
        """The resource in a sentence: a CPU share, a block I/O share."""
        return {Resource.CPU: "CPU", Resource.BLOCK_IO: "block I/O"}.get(self, self.value)
