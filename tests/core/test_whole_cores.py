"""Where slots share cores a promise counts cores, and without one all slots are used."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.driven_world import DrivenWorld
from tests.core.fakes import core_of, node, spec, strict
from tests.core.head import Head
from tests.examples import fewer_if_quick

from swell.core.usable_nodes import on_whole_cores, with_whole_cores
from swell.model.cluster import Cluster
from swell.model.command import Reconfigure, SuspendGang
from swell.model.job import JobSpec, Phase
from swell.model.node import Node
from swell.policies.unified import Unified

SLOTS, CORES = 6, 2


def crowded(slots: int = SLOTS, cores: float | None = CORES, name: str = "n0") -> Node:
    return msgspec.structs.replace(node(name, slots), cores=cores)


def on_shared_cores(*others: JobSpec) -> tuple[Head, DrivenWorld]:
    """A node with more slots than cores, on which these jobs run."""
    world = DrivenWorld()
    head = Head(core_of, world)
    world.join(crowded())
    for number, job in enumerate(others):
        head.submit(f"other-{number}", job)
    head.run_until(lambda: used(head) == min(SLOTS, len(others)))
    return head, world


def used(head: Head) -> int:
    """Slots on which workers train, or are about to."""
    return sum(len(view.devices) for view in head.core.views())


@given(
    nodes=st.lists(
        st.tuples(st.integers(1, 6), st.none() | st.sampled_from([0.5, 1.0, 1.5, 4.0])),
        min_size=1,
        max_size=3,
    ),
    held=st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 5)), st.booleans()),
)
def test_as_many_slots_as_cores_are_used_and_none_that_is_kept_is_hidden(
    nodes: list[tuple[int, float | None]], held: dict[tuple[int, int], bool]
) -> None:
    cluster = Cluster(tuple(crowded(*one, f"n{number}") for number, one in enumerate(nodes)))
    there = {f"n{number}.{slot}": is_kept for (number, slot), is_kept in held.items()}
    there = {slot: is_kept for slot, is_kept in there.items() if slot in cluster.devices}
    kept = {slot for slot, is_kept in there.items() if is_kept}
    usable, shown = with_whole_cores(cluster), on_whole_cores(cluster, kept, there)
    assert usable.num_devices + usable.num_left_idle == cluster.num_devices
    assert (usable.num_left_idle > 0) == cluster.is_crowded
    assert sum(usable.owned_widths) == usable.num_devices
    assert kept <= set(shown.devices) <= set(cluster.devices)
    for before, after in zip(cluster.nodes, shown.nodes, strict=True):
        assert len(after.devices) == max(before.num_whole, len(kept.intersection(before.devices)))
        hidden = there.keys() & set(before.devices) - set(after.devices)
        assert not hidden or there.keys() >= set(after.devices)
        assert before.num_whole == (len(before.devices) if before.cores is None else before.num_whole) >= 1


def test_a_gang_gets_no_more_slots_of_a_node_than_cores_where_another_had_more() -> None:
    """So its promise, which counts a core for each worker, is kept."""
    world = DrivenWorld()
    head = Head(core_of, world)
    for name in ("n0", "n1", "n2"):
        world.join(crowded(4, 2, name))
    head.submit("other", spec(5000, max_workers=4))
    head.run_until(lambda: used(head) == 4)
    wide = msgspec.structs.replace(strict(head.world.now_s + 100.0, 100), min_workers=4)
    head.submit("promised", wide)
    head.run_until(
        lambda: any(view.is_promised and view.phase is Phase.RUNNING for view in head.core.views())
    )
    nodes = Counter(slot.partition(".")[0] for view in head.core.views() for slot in view.devices)
    assert nodes == {"n0": 2, "n1": 2, "n2": 2}


@pytest.mark.slow
@given(num_others=st.integers(0, SLOTS), steps=st.integers(50, 150))
@settings(max_examples=fewer_if_quick(10), deadline=None)
def test_a_promised_job_has_a_core_for_each_worker_and_all_slots_are_used_after_it(
    num_others: int, steps: int
) -> None:
    others = [spec(5000, max_workers=1)] * num_others
    head, _ = on_shared_cores(*others)
    head.submit("promised", strict(head.world.now_s + 200.0, steps))
    head.run_until(
        lambda: any(view.is_promised and view.phase is Phase.RUNNING for view in head.core.views())
    )
    head.run_until(lambda: used(head) <= CORES)
    while not head.phase("promised").is_end:
        assert used(head) <= CORES
        head.turn()
    assert head.job("promised").kept
    head.run_until(lambda: used(head) == num_others)


def test_cores_are_divided_until_a_deadline_is_promised_and_after_it() -> None:
    """Then each worker has a core, and no gang has a share."""
    world = DrivenWorld()
    head = Head(lambda: core_of(Unified()), world)
    world.join(crowded())
    for number in range(SLOTS):
        head.submit(f"other-{number}", spec(5000, max_workers=1))
    head.run_until(lambda: len(shares(head)) == SLOTS)
    head.submit("promised", strict(head.world.now_s + 200.0, 100))
    head.run_until(
        lambda: any(view.is_promised and view.phase is Phase.RUNNING for view in head.core.views())
    )
    head.run_until(lambda: used(head) <= CORES and not shares(head))
    head.run_until(lambda: "promised" in head.ended)
    assert head.job("promised").kept
    head.run_until(lambda: len(shares(head)) == SLOTS)


def shares(head: Head) -> list[float]:
    """CPU shares of the gangs that have one."""
    return [view.share for view in head.core.views() if view.share is not None]


def test_a_refused_deadline_stops_nobody() -> None:
    head, world = on_shared_cores(*[spec(5000, max_workers=1)] * SLOTS)
    num = len(world.performed)
    head.submit("hopeless", strict(head.world.now_s + 0.1, 100_000))
    head.run_until(lambda: "hopeless" in head.ended)
    head.run_for(1.0)
    assert head.phase("hopeless") is Phase.REJECTED and used(head) == SLOTS
    changes = [c for _, c in world.performed[num:] if isinstance(c, SuspendGang | Reconfigure)]
    assert not changes
