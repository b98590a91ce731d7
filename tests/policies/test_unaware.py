from __future__ import annotations

import pytest
from tests.policies.snapshots import snapshot, strict

from swell.policies.edf_elastic import EdfElastic
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.unaware import EdfElasticUnaware, ElasticFlowUnaware, without_costs

LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}


def test_it_promises_what_leaves_no_time_for_the_start() -> None:
    job = strict("a", LINEAR, 8, 1.5, start_cost=1.0)
    assert set(ElasticFlow().decide(snapshot([job], 8)).refusals) == {0}
    assert not ElasticFlowUnaware().decide(snapshot([job], 8)).refusals


@pytest.mark.parametrize(
    ("aware", "unaware"), [(ElasticFlow, ElasticFlowUnaware), (EdfElastic, EdfElasticUnaware)]
)
def test_where_nothing_costs_it_decides_the_same(
    aware: type[ElasticFlow], unaware: type[ElasticFlow]
) -> None:
    jobs = [
        strict("a", LINEAR, 8, 10.0, held=2, start_cost=3.0),
        strict("b", LINEAR, 20, 7.0, start_cost=1.0),
    ]
    free = without_costs(snapshot(jobs, 8))
    assert unaware().decide(snapshot(jobs, 8)).workers.tolist() == aware().decide(free).workers.tolist()
