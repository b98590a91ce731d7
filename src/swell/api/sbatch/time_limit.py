"""The time limit of a Slurm script."""

from __future__ import annotations

from swell.slurm_time import slurm_seconds

_NO_LIMIT = frozenset({"infinite", "unlimited", "-1"})


def parse_time_limit(text: str) -> int | None:
    """Seconds; None for no limit, which is also how Slurm reads 0.

    Raises:
        ValueError: not one of Slurm's formats.
    """
    return None if text.lower() in _NO_LIMIT else slurm_seconds(text) or None
