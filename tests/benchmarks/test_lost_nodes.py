"""How the benchmark of lost nodes draws failures of racks, and counts nodes that are down at once."""

from __future__ import annotations

import pytest
from benchmarks.lost_nodes import Down, Failures, downs, most_at_once, occurrences

from swell.sim.simulate import cluster

NODES = cluster(20, 1, "gpu")


def failed(per_rack: int) -> list[Down]:
    failures = Failures(mean_up_s=100.0, per_rack=per_rack)
    return downs(occurrences(NODES, failures, mean_down_s=10.0, until_s=500.0, seed=0))


def test_nodes_of_a_rack_are_down_together_and_the_last_rack_may_have_fewer() -> None:
    counts = {failed(8).count(down) for down in failed(8)}
    assert counts == {8, 4}
    assert {failed(1).count(down) for down in failed(1)} == {1}


@pytest.mark.parametrize(
    ("from_s", "until_s", "expected"),
    [
        (0.0, 10.0, (0, 0)),
        (0.0, 11.0, (1, 1)),
        (0.0, 100.0, (2, 3)),
        (16.0, 100.0, (1, 2)),
        (25.0, 100.0, (1, 1)),
        (21.0, 45.0, (1, 1)),
        (40.0, 100.0, (0, 0)),
    ],
)
def test_nodes_count_that_are_down_at_one_time_within_a_life(
    from_s: float, until_s: float, expected: tuple[int, int]
) -> None:
    """The second fails before the first is back, the third when the second is."""
    down = [
        Down(from_s=10.0, until_s=16.0),
        Down(from_s=15.0, until_s=20.0),
        Down(from_s=20.0, until_s=40.0),
    ]
    assert most_at_once(down, from_s, until_s) == expected
