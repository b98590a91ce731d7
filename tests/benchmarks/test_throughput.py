"""What the throughput benchmark makes of the times of blocks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from benchmarks.training.throughput import row_of


def test_each_block_is_compared_with_its_neighbour() -> None:
    """Whatever slows both down for a while does not count."""
    ddp_s = [1.0, 1.0, 7.0, 7.0, 1.0]
    blocks_s: dict[str, Sequence[float]] = {"ddp": ddp_s, "swell": [1.25 * each for each in ddp_s]}
    row = row_of("1M", "adam", 2, 320, blocks_s)
    assert (row.ddp_per_s, row.swell_per_s) == (320.0, 256.0)
    assert (row.ratio, row.spread) == pytest.approx((0.8, 0.0))
