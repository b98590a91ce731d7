"""How many devices open jobs could use, whatever the order in which they change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import pick
from tests.store.views import job_view

from swell.live.watches import DeviceDemand
from swell.model.job import Phase
from swell.model.view import JobView


def job(
    name: str, largest: int | None, phase: Phase = Phase.QUEUED, *, is_held: bool = False, each: int = 1
) -> JobView:
    return job_view(id=name, phase=phase, max_workers=largest, is_held=is_held, devices_per_worker=each)


@given(
    st.lists(
        st.tuples(pick("a", "b", "c"), st.integers(1, 9), pick(Phase.QUEUED, Phase.RUNNING, Phase.FAILED)),
        max_size=12,
    )
)
def test_it_is_the_sum_over_the_latest_states(changes: list[tuple[str, int, Phase]]) -> None:
    demand, latest = DeviceDemand(), dict[str, int]()
    for name, largest, phase in changes:
        before = demand.num_devices
        views = [job(name, largest, phase)]
        is_news = demand.note([] if phase.is_end else views, views if phase.is_end else [])
        latest[name] = 0 if phase.is_end else largest
        assert demand.num_devices == sum(latest.values())
        assert is_news == (demand.num_devices != before)
