"""The demo's jobs on four Ray nodes. Minutes long: `make test-soak`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.machines.namespaces import HOME, STATE, STORAGE
from tests.platform.test_demo import LIMIT_S, check_jobs
from tests.ray.cluster import HealthChecks, NodeOffer, RayCluster, why_not
from tests.ray.swell_on_ray import WITHIN_S, Platform
from tests.ray.user import await_this

NUM_NODES = 4


@pytest.fixture
def platform() -> Iterator[Platform]:
    if why_not():
        pytest.skip(f"no Ray cluster can be had here: {why_not()}")
    offer = NodeOffer(num_gpus=0)
    with RayCluster([offer], HealthChecks()) as cluster:  # quick ones take busy nodes for dead
        for _ in range(NUM_NODES - 1):  # one after another: Ray gives a node half a minute to start
            cluster.add(offer)
        made = Platform(cluster)
        made.run(
            *(
                "up",
                "--engine",
                "ray",
                "--storage",
                STORAGE,
                "--preload",
                "sklearn.datasets",
            ),
            *("--slice-devices", f"paced:{offer.num_cpus}@100", "--min-nodes", str(NUM_NODES)),
        )
        await_this(lambda: made.num_devices == NUM_NODES * offer.num_cpus, WITHIN_S)
        yield made


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S + WITHIN_S)
def test_the_demo_keeps_its_promises_on_four_ray_nodes(platform: Platform) -> None:
    platform.run("demo", "--state", STATE, "--out", HOME, "--json", f"{HOME}/demo.json")
    found = json.loads(platform.read(f"{HOME}/demo.json"))
    assert found["cluster"] == {"devices": "paced:4x2@100", "paced": True}
    check_jobs(found["jobs"])
