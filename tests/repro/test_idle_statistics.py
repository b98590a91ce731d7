"""Pools drawn from printed statistics are as these say."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from swell.model.errors import InvalidInput
from swell_papers.bftrainer_pools import idle_times
from swell_papers.idle_statistics import LIKE, drawn_pool

DAY_S = 86_400.0


@pytest.mark.slow
@pytest.mark.parametrize("name", LIKE)
def test_a_drawn_pool_has_the_printed_statistics(name: str) -> None:
    """Takes a second for hundreds of thousands of intervals."""
    duration_s = (30.0 if name == "theta-like" else 8.0) * DAY_S
    like, found = LIKE[name], idle_times(drawn_pool(name, duration_s, 1), duration_s)
    assert found.joins_per_h(1.0, duration_s) == pytest.approx(like.joins_per_h, rel=0.1)
    assert found.leaves_per_h(1.0, duration_s) == pytest.approx(like.leaves_per_h, rel=0.1)
    assert found.mean_nodes(0.0, duration_s) == pytest.approx(like.equivalent_nodes, rel=0.25)


def test_no_node_is_idle_twice_at_a_time_and_the_seed_decides() -> None:
    pool = drawn_pool("theta-like", DAY_S, 3)
    by_node = defaultdict(list)
    for one in pool.intervals:
        by_node[one.node].append((one.start_s, one.end_s))
    for spans in by_node.values():
        spans.sort()
        assert all(end_s <= start_s for (_, end_s), (start_s, _) in pairwise(spans))
    assert len(by_node) <= LIKE["theta-like"].num_nodes
    assert pool.intervals == drawn_pool("theta-like", DAY_S, 3).intervals
    assert pool.intervals != drawn_pool("theta-like", DAY_S, 4).intervals
    assert "seed 3" in pool.source
    ends_s = np.array([one.end_s for one in pool.intervals])
    assert np.isinf(ends_s).any(), "nodes that are idle at the end are still idle"


def test_more_than_can_be_drawn_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ask for fewer days"):
        drawn_pool("mira-like", 365 * DAY_S, 0)
