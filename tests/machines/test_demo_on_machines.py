"""The demo's jobs on four machines that joined. Minutes long: `make test-soak`."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.machines.namespaces import HOME, STATE, Network, why_not
from tests.machines.site import Site, start
from tests.platform.test_demo import LIMIT_S, check_jobs


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S + 60)
def test_the_demo_keeps_its_promises_on_four_machines() -> None:
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with Network(5) as network:
        site = Site(network, "paced:2@100", ["--preload", "sklearn.datasets"])
        words = ("demo", "--state", STATE, "--out", HOME, "--json", f"{HOME}/demo.json")
        demo = start(site.head, *words, stdout=subprocess.PIPE)
        printed, _ = demo.communicate()
        assert demo.returncode == 0, printed
        found = json.loads(site.head.outside(f"{HOME}/demo.json").read_text())
    assert found["cluster"] == {"devices": "paced:4x2@100", "paced": True}
    check_jobs(found["jobs"])
