"""How long to wait before what has failed is tried again."""

from __future__ import annotations

#: The pause has reached any longest one by then.
_MOST_DOUBLINGS = 32


def retry_pause_s(num_failures: int, first_s: float, longest_s: float) -> float:
    """Return the pause after so many failures in a row, one at least. Each is twice as long as the last."""
    return min(longest_s, first_s * 2.0 ** min(num_failures - 1, _MOST_DOUBLINGS))
