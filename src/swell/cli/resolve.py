"""Which job is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swell.api.named_job import choose

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView


def find_job(client: Client, wanted: str) -> JobView:
    """Raises UnknownJob if no job, or more than one, could be meant."""
    return choose(client.candidates(wanted), wanted)
