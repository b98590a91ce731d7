"""Jobs that stay: BFTrainer's Equations (6) to (10) for every placement."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.placement.test_best_fit import cluster
from tests.placement.test_owned import lent, wishes

from swell.model.cluster import Cluster
from swell.placement.best_fit import BestFitPlacer

clusters = st.sampled_from(
    [cluster(8), cluster(4, 4), cluster(8, 8, 8, 8), lent(cluster(4, 4), 1), cluster()]
)
Held = dict[str, tuple[str, ...]]


def stays(before: set[str], after: set[str]) -> bool:
    """Equation (6): as many nodes change as their number does."""
    return len(before ^ after) == abs(len(after) - len(before))


@given(machines=clusters, steps=st.lists(wishes, min_size=2, max_size=5), data=st.data())
def test_a_job_that_stays_gives_up_devices_or_takes_in_others(
    machines: Cluster, steps: list[dict[str, int]], data: st.DataObject
) -> None:
    """Where a node has gone, what is left of the job counts. Every job that fits is placed."""
    placer, held = BestFitPlacer(), Held()
    for wanted in steps:
        gone = data.draw(st.sampled_from(["none", *(node.name for node in machines.nodes)]))
        machines = machines.without_node(gone)
        there = set(machines.devices)
        changes = {job: num for job, num in wanted.items() if num != len(held.get(job, ()))}
        changes |= {job: 0 for job in held if job not in wanted}
        placement = placer.place(machines, changes, held, frozenset(), staying=frozenset(held))
        after = {job: devices for job, devices in (held | dict(placement.changes)).items() if devices}
        for job, devices in after.items():
            if job in held:
                assert stays(there.intersection(held[job]), set(devices)), job
        assert not placement.moved
        if sum(wanted.values()) <= len(there):
            assert not placement.unplaced
            assert {job: len(devices) for job, devices in after.items()} == {
                job: num for job, num in wanted.items() if num
            }
        held = after
