from __future__ import annotations

from tests.policies.snapshots import snapshot, strict

from swell_papers.policies.edf import Edf, without_costs

LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}


def test_where_nothing_costs_it_decides_the_same() -> None:
    jobs = [
        strict("a", LINEAR, 8, 10.0, held=2, start_cost=3.0),
        strict("b", LINEAR, 20, 7.0, start_cost=1.0),
    ]
    free = without_costs(snapshot(jobs, 8))
    unaware, aware = Edf(elastic=1, expects_costs=0).decide(snapshot(jobs, 8)), Edf(elastic=1).decide(free)
    assert unaware.workers.tolist() == aware.workers.tolist()
