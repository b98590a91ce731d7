"""Slow devices are those that jobs get last, and give up first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.placement.test_best_fit import cluster

from swell.placement.best_fit import BestFitPlacer

widths = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@given(st.integers(1, 8), st.data())
def test_a_job_on_one_node_gets_slow_devices_only_for_want_of_others(width: int, data: st.DataObject) -> None:
    machines = cluster(width)
    slow = data.draw(st.frozensets(st.sampled_from(machines.devices)))
    num, fewer = data.draw(st.integers(1, width)), data.draw(st.integers(1, width))
    placed = BestFitPlacer().place(machines, {"a": num}, {}, frozenset(), slow=slow).changes["a"]
    assert len(slow.intersection(placed)) == max(0, num - (width - len(slow)))
    kept = BestFitPlacer().place(machines, {"a": fewer}, {"a": placed}, frozenset(), slow=slow)
    has = kept.changes.get("a", placed)
    assert len(slow.intersection(has)) == max(0, fewer - (width - len(slow)))
    assert set(has) <= set(placed) or set(placed) <= set(has)


@given(widths, st.data())
def test_of_nodes_that_are_large_enough_one_whose_devices_are_not_slow_is_chosen(
    sizes: list[int], data: st.DataObject
) -> None:
    machines = cluster(*sizes)
    slow = data.draw(st.frozensets(st.sampled_from(machines.devices)))
    num = data.draw(st.integers(1, max(sizes)))
    placed = BestFitPlacer().place(machines, {"a": num}, {}, frozenset(), slow=slow).changes["a"]
    fast = [len(set(one.devices) - slow) for one in machines.nodes if len(one.devices) >= num]
    assert len(slow.intersection(placed)) == max(0, num - max(fast))


@given(widths, st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3), min_size=1))
def test_a_running_job_stays_on_a_device_that_has_become_slow(
    sizes: list[int], wanted: dict[str, int]
) -> None:
    machines, placer = cluster(*sizes), BestFitPlacer()
    held = dict(placer.place(machines, wanted, {}, frozenset()).changes)
    again = placer.place(machines, {}, held, frozenset(), slow=frozenset(machines.devices[:2]))
    assert not again.changes and not again.moved
