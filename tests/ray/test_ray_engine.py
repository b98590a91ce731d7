"""`swell up --engine ray` on a real cluster: three machines with two devices each, and another user of Ray.

Forty seconds on an idle machine: Ray starts four times, hosts warm up, and a job is tried out before it runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.machines.namespaces import HOME, STORAGE
from tests.ray.cluster import LASTING, HealthChecks, NodeOffer, RayCluster, RayNode, why_not
from tests.ray.swell_on_ray import WITHIN_S, Platform
from tests.ray.user import RayUser

TINY = Path(__file__).parents[1] / "executors" / "train_tiny.py"
NAP_S = 0.1


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    if why_not():
        pytest.skip(f"no Ray cluster can be had here: {why_not()}")
    offer = NodeOffer(num_gpus=0, labels={"rack": "r1"})
    with RayCluster([offer], HealthChecks()) as made:  # quick ones take busy nodes for dead
        for _ in range(2):  # one after another: Ray gives a node half a minute to start
            made.add(offer)
        made.head.machine.outside(f"{HOME}/tiny.py").write_text(_endless())
        yield made


@pytest.fixture
def user(cluster: RayCluster) -> Iterator[RayUser]:
    with cluster.user() as made:
        yield made


def free(user: RayUser, node: RayNode) -> float:
    return user.node(node).free.get("CPU", 0.0)


@pytest.mark.soak  # Ray takes busy nodes for dead, and two busy cores need minutes
@pytest.mark.timeout(1800)
def test_a_job_uses_what_is_free_in_ray_and_gives_it_back(cluster: RayCluster, user: RayUser) -> None:
    platform = Platform(cluster)
    platform.run("up", "--engine", "ray", "--storage", STORAGE)
    try:
        _tell_the_story(platform, cluster, user)
    except BaseException:
        print(platform.log())
        raise
    finally:
        platform.run("down")
    eventually(lambda: all(free(user, node) == 2 for node in cluster if node is not cluster[2]))


def _tell_the_story(platform: Platform, cluster: RayCluster, user: RayUser) -> None:
    assert all(free(user, node) == 2 for node in cluster), "what no job could use is free for all"
    user.hold("first", user.node(cluster[0]), num_cpus=2)
    user.await_held("first", WITHIN_S)
    words = ("--global-batch", "64", "--workers", "2:6", "--epochs", "10000")
    platform.run("submit", "--script", "tiny.py", "--name", "j", "--no-wait", *words, "--", str(NAP_S))
    eventually(lambda: platform.job("j")["workers"] == 4, patience_s=WITHIN_S)
    assert platform.slices_of(cluster[0]) == [] and free(user, cluster[1]) == free(user, cluster[2]) == 0

    user.release("first")  # slices wait in Ray's queue
    eventually(lambda: platform.num_devices == 6, patience_s=WITHIN_S)
    cluster[2].machine.kill()
    dead_s = user.await_dead(cluster[2], WITHIN_S)
    eventually(lambda: not platform.slices_of(cluster[2]), patience_s=WITHIN_S)
    print(f"the platform has given a node up {time.time() - dead_s:.2f} s after Ray has")
    eventually(lambda: platform.job("j")["phase"] == "running", patience_s=WITHIN_S)
    eventually(lambda: platform.held(cluster[0]) + platform.held(cluster[1]) >= 2, patience_s=WITHIN_S)

    platform.run("cancel", "j")
    user.hold("second", user.node(cluster[0]), num_cpus=2)
    told_s = time.time()
    began_s, _ = user.await_held("second", WITHIN_S)
    print(f"another user has devices {began_s - told_s:.2f} s after the command that ended the job")
    user.release("second")


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_gcs_that_is_killed_and_comes_back_with_what_it_knew_costs_no_step() -> None:
    """It has a storage, as it has to for that; the job trains in the same processes."""
    if why_not():
        pytest.skip(f"no Ray cluster can be had here: {why_not()}")
    with RayCluster([NodeOffer(num_gpus=0)], HealthChecks(), LASTING) as cluster:
        cluster.head.machine.outside(f"{HOME}/tiny.py").write_text(_endless())
        platform = Platform(cluster)
        platform.run("up", "--engine", "ray", "--storage", STORAGE)
        words = ("--global-batch", "64", "--workers", "1", "--epochs", "10000")
        platform.run("submit", "--script", "tiny.py", "--name", "j", "--no-wait", *words, "--", str(NAP_S))
        eventually(lambda: platform.job("j")["steps"] > 0, patience_s=WITHIN_S)
        before, raylets = platform.job("j"), cluster[0].pids("raylet")
        start_gcs = cluster.kill_gcs()
        steps = before["steps"]
        eventually(lambda: platform.job("j")["steps"] > steps, patience_s=WITHIN_S)
        start_gcs()
        steps = platform.job("j")["steps"]
        eventually(lambda: platform.job("j")["steps"] > steps, patience_s=WITHIN_S)
        after = platform.job("j")
        assert (after["generation"], after["live_pids"]) == (before["generation"], before["live_pids"])
        assert cluster[0].pids("raylet") == raylets
        platform.run("submit", "--script", "tiny.py", "--name", "k", "--no-wait", *words, "--", str(NAP_S))
        eventually(lambda: platform.job("k")["steps"] > 0, patience_s=WITHIN_S)  # Ray gives it a slice
        platform.run("down")


def _endless() -> str:
    """A script."""
    return TINY.read_text().replace("epochs=2", "epochs=10000")
