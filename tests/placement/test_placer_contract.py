"""What every placer owes the head, those of the tests too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import FirstFree, Shuffler
from tests.placement.test_best_fit import cluster
from tests.placement.test_owned import BOUND, lent, owned, wishes

from swell.model.cluster import Cluster
from swell.placement.best_fit import BestFitPlacer

clusters = st.sampled_from(
    [cluster(8), cluster(4, 4), lent(cluster(4, 4), 1), lent(cluster(6, 3, 8), 0), cluster()]
)
#: So many jobs that some share a node, and so small that there is room for them elsewhere.
small_wishes = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 2), min_size=3)


@pytest.mark.slow
@pytest.mark.parametrize("make", [BestFitPlacer, FirstFree, Shuffler])
@given(machines=clusters, steps=st.lists(wishes, min_size=1, max_size=4), data=st.data())
def test_a_placer_keeps_its_contract(
    make: type[BestFitPlacer], machines: Cluster, steps: list[dict[str, int]], data: st.DataObject
) -> None:
    """Real devices, no two jobs share one, who is pinned stays, who is placed has as many as were wanted."""
    placer, held = make(), dict[str, tuple[str, ...]]()
    names = [node.name for node in machines.nodes]
    some = st.frozensets(st.sampled_from(names)) if names else st.just(frozenset())
    barred = data.draw(st.dictionaries(st.sampled_from("abc"), some))
    node_of = {device: node.name for node in machines.nodes for device in node.devices}
    for wanted in steps:
        pinned = frozenset(data.draw(st.sets(st.sampled_from(sorted(held))) if held else st.just(set())))
        changes = {job: num for job, num in wanted.items() if num != len(held.get(job, ()))}
        changes |= {job: 0 for job in held if job not in wanted}
        changes = {job: num for job, num in changes.items() if job not in pinned}
        before, placement = dict(held), placer.place(machines, changes, held, pinned, BOUND, barred)
        held = {job: devices for job, devices in (held | dict(placement.changes)).items() if devices}
        everything = [device for devices in held.values() for device in devices]
        assert len(everything) == len(set(everything)) and set(everything) <= set(machines.devices)
        assert all(held[job] == before[job] for job in pinned)
        assert placement.unplaced <= changes.keys() and not placement.unplaced & held.keys()
        for job, num in wanted.items():
            assert job in pinned or job not in held or len(held[job]) == num
        assert all(owned(machines).issuperset(held[job]) for job in BOUND & held.keys())
        assert not any(node_of[device] in barred.get(job, ()) for job in held for device in held[job])


@pytest.mark.slow
@pytest.mark.parametrize("make", [BestFitPlacer, FirstFree, Shuffler])
@given(machines=clusters, before=small_wishes, wanted=small_wishes, data=st.data())
def test_the_order_of_what_is_held_says_nothing(
    make: type[BestFitPlacer],
    machines: Cluster,
    before: dict[str, int],
    wanted: dict[str, int],
    data: st.DataObject,
) -> None:
    """A head that was killed holds the same in another order, and is to decide as it would have."""
    held = dict(make().place(machines, before, {}, frozenset(), BOUND).changes)
    left = machines.without_node(
        data.draw(st.sampled_from(["none", *(node.name for node in machines.nodes)]))
    )
    changes = {job: num for job, num in wanted.items() if num != len(held.get(job, ()))}
    one, other = (
        make().place(left, changes, dict(order), frozenset(), BOUND)
        for order in (held.items(), reversed(held.items()))
    )
    assert one == other
