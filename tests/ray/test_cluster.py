"""Ray's nodes are machines: they have what they were given, and die as a whole.

Twenty seconds: Ray starts three times, and a machine that has died is known to have after three seconds.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator

import pytest
from tests.ray.cluster import NodeOffer, RayCluster, why_not
from tests.ray.user import RayUser, await_this

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    if why_not():
        pytest.skip(f"no Ray cluster can be had here: {why_not()}")
    with RayCluster([NodeOffer(resources={"seat": 2}, labels={"zone": "a"})]) as made:
        yield made


@pytest.fixture(scope="module")
def user(cluster: RayCluster) -> Iterator[RayUser]:
    with cluster.user() as made:
        yield made


def test_a_machine_is_a_node_with_devices_and_labels(cluster: RayCluster, user: RayUser) -> None:
    assert sum(node.is_alive for node in user.nodes()) == 2, "one is the head"
    seen = user.node(cluster[0])
    assert seen.labels["zone"] == "a"
    assert (seen.resources["CPU"], seen.resources["GPU"], seen.resources["seat"]) == (2, 2, 2)
    assert len(cluster.head.pids("gcs_server")) == len(cluster[0].pids("raylet")) == 1
    assert not cluster[0].pids("gcs_server")


def test_what_one_holds_another_has_to_wait_for(cluster: RayCluster, user: RayUser) -> None:
    seen = user.node(cluster[0])
    for name in ("one", "other"):
        user.hold(name, seen, num_gpus=1)
    devices = {user.await_held(name)[1]["CUDA_VISIBLE_DEVICES"] for name in ("one", "other")}
    assert devices == {"0", "1"}
    await_this(lambda: not user.node(cluster[0]).free.get("GPU"))
    user.hold("next", seen, num_gpus=1)
    with pytest.raises(RuntimeError, match="GetTimeoutError"):
        user.await_held("next", within_s=0.2)
    freed_s = time.time()
    user.release("one")
    assert user.await_held("next")[0] > freed_s
    for name in ("other", "next"):
        user.release(name)


def test_a_killed_machine_is_a_dead_node_and_comes_back_as_another(
    cluster: RayCluster, user: RayUser
) -> None:
    node = cluster[0]
    before = user.node(node)
    user.hold("doomed", before, num_gpus=1)
    user.await_held("doomed")
    descriptors = [os.pidfd_open(pid) for pid in node.machine.pids()]
    assert len(descriptors) > 2, "the raylet, its agents and a worker"
    killed_s = time.time()
    node.machine.kill()
    for descriptor in descriptors:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        assert ended.poll(0), "`kill` returns when all have ended"
        os.close(descriptor)
    print(f"Ray knows of the death after {user.await_dead(node) - killed_s:.2f} s")
    node.restart()
    after = user.node(node)
    assert after.node_id != before.node_id and after.labels["zone"] == "a"


def test_a_node_that_is_drained_gets_no_more_actors(cluster: RayCluster, user: RayUser) -> None:
    """The last test, for it stays drained."""
    user.hold("before", seat=1)
    user.await_held("before")
    assert user.drain(user.node(cluster[0]), deadline_s=60.0)
    user.hold("after", seat=1)
    with pytest.raises(RuntimeError, match="GetTimeoutError"):
        user.await_held("after", within_s=0.5)
    user.await_held("before")
