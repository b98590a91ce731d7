"""How many examples the slowest laws have."""

from __future__ import annotations

import math

from hypothesis import settings


def share_of_examples(share: float) -> int:
    """Of the number that the profile gives, which is whole again with `--hypothesis-profile=thorough`."""
    profile = settings.default
    assert profile is not None
    return math.ceil(share * profile.max_examples)
