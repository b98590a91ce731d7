"""Laws of how cores are divided."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from swell.model.share_mode import ShareMode
from swell.sim.shared_cores import RULES, by_quota, by_weight

CORES = st.floats(0.1, 128.0)
GANGS = st.lists(st.tuples(st.floats(0.0, 64.0), st.floats(0.001, 1.0)), min_size=1, max_size=12)
NEAR = 1e-9


@pytest.mark.parametrize("rule", RULES)
@given(cores=CORES, gangs=GANGS)
def test_none_gets_more_than_it_uses_and_all_together_no_more_than_there_is(
    rule: ShareMode, cores: float, gangs: list[tuple[float, float]]
) -> None:
    demands, shares = [demand for demand, _ in gangs], [share for _, share in gangs]
    given = RULES[rule](cores, demands, shares)
    assert all(0.0 <= got <= demand for got, demand in zip(given, demands, strict=True))
    assert sum(given) <= cores * (1.0 + NEAR)


@given(cores=CORES, gangs=GANGS)
def test_by_weight_no_core_is_idle_while_somebody_could_use_it(
    cores: float, gangs: list[tuple[float, float]]
) -> None:
    demands, weights = [demand for demand, _ in gangs], [weight for _, weight in gangs]
    assert sum(by_weight(cores, demands, weights)) == pytest.approx(min(cores, sum(demands)))


@given(cores=CORES, gangs=GANGS)
def test_by_weight_those_that_could_use_more_have_cores_in_proportion_and_none_has_more(
    cores: float, gangs: list[tuple[float, float]]
) -> None:
    demands, weights = [demand for demand, _ in gangs], [weight for _, weight in gangs]
    given = by_weight(cores, demands, weights)
    rows = list(zip(given, demands, weights, strict=True))
    levels = [got / weight for got, demand, weight in rows if got < demand]
    if levels:
        assert levels == pytest.approx([levels[0]] * len(levels))
        assert all(got / weight <= levels[0] * (1.0 + NEAR) for got, _, weight in rows)


@given(cores=CORES, gangs=GANGS, more=st.floats(1.0, 100.0), data=st.data())
def test_a_greater_weight_is_never_worth_less(
    cores: float, gangs: list[tuple[float, float]], more: float, data: st.DataObject
) -> None:
    demands, weights = [demand for demand, _ in gangs], [weight for _, weight in gangs]
    at = data.draw(st.integers(0, len(gangs) - 1))
    raised = [weight * more if place == at else weight for place, weight in enumerate(weights)]
    before, after = by_weight(cores, demands, weights), by_weight(cores, demands, raised)
    assert after[at] >= before[at] * (1.0 - NEAR)
    others = [place for place in range(len(gangs)) if place != at]
    assert all(after[place] <= before[place] * (1.0 + NEAR) + NEAR for place in others)


@given(cores=CORES, gangs=GANGS)
def test_a_quota_is_a_limit_however_idle_the_others_are(
    cores: float, gangs: list[tuple[float, float]]
) -> None:
    demands, shares = [demand for demand, _ in gangs], [share for _, share in gangs]
    given = by_quota(cores, demands, shares)
    limits = [min(demand, share * cores) for demand, share in gangs]
    assert all(got <= limit * (1.0 + NEAR) for got, limit in zip(given, limits, strict=True))
    assume(sum(limits) <= cores)
    assert given == limits


def test_equal_gangs_get_exactly_the_same() -> None:
    assert by_weight(2.0, [1.0] * 10, [1.0] * 10) == [0.2] * 10
