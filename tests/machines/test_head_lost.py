"""The machine of the head is lost, with its disk: another one goes on from its copy, and a gang trains on."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.machines.namespaces import HOME, STATE, Machine, Network, why_not
from tests.machines.site import PORT, TOKEN, start, swell

import swell as package

VISITS = str(Path(package.__file__).parent / "demo" / "visits.py")
WITHIN_S, DECISION_S = 120.0, 30.0
COPY = f"{HOME}/standby"
STEPS = 600


def await_so(is_so: Callable[[], object], within_s: float = WITHIN_S) -> None:
    deadline_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def show(machine: Machine, job_id: str) -> dict[str, Any]:
    return dict(json.loads(swell(machine, "show", job_id, "--json")))


def await_end(machine: Machine, job_id: str) -> dict[str, Any]:
    await_so(lambda: show(machine, job_id)["phase"] == "succeeded")
    return show(machine, job_id)


def submit(machine: Machine, name: str, steps: int) -> str:
    words = ("--script", VISITS, "--name", name, "--global-batch", "64", "--workers", "1:2", "--steps")
    [job] = json.loads(swell(machine, "submit", *words, str(steps), "--no-wait", "--json"))
    return str(job["id"])


class Site:
    """A head without devices, a standby, and a host that knows the addresses of both."""

    def __init__(self, network: Network) -> None:
        self.head, self.second, self.host = network.machines
        with self.second.outside(f"{HOME}/standby.log").open("w") as log:
            where = ("--listen", f"{self.second.address}:{PORT}", "--state", COPY)
            self.standby = start(self.second, "standby", *where, stdout=log, stderr=subprocess.STDOUT)
        token = self.second.outside(f"{COPY}/standby.join-token")
        await_so(token.exists)
        self.give(token, self.head, f"{STATE}/standby.join-token")
        place = ("--listen", f"{self.head.address}:{PORT}", "--devices", "none", "--policy", "edf")
        swell(self.head, "up", *place, "--copy-to", f"{self.second.address}:{PORT}")
        self.give(self.head.outside(f"{STATE}/first.join-token"), self.host, TOKEN)
        heads = ",".join(f"{machine.address}:{PORT}" for machine in (self.head, self.second))
        with self.host.outside(f"{HOME}/node.log").open("w") as log:
            words = (
                "node",
                "--join",
                heads,
                "--token-file",
                TOKEN,
                "--name",
                "n1",
                "--devices",
                "paced:2@256",
            )
            start(self.host, *words, stdout=log, stderr=subprocess.STDOUT)
        await_so(lambda: "journal file" not in self.cluster(self.head)["warnings"])

    @staticmethod
    def give(token: Path, machine: Machine, path: str) -> None:
        machine.outside(path).touch(mode=0o600)
        machine.outside(path).write_text(token.read_text())

    @staticmethod
    def cluster(machine: Machine) -> dict[str, Any]:
        return dict(json.loads(swell(machine, "nodes", "--json")))

    def take_over(self) -> float:
        """Seconds until the next head has the host and has decided."""
        begun_s = time.monotonic()
        self.standby.terminate()
        self.standby.wait()
        swell(self.second, "restore", COPY)
        swell(self.second, "up", "--listen", f"{self.second.address}:{PORT}")
        await_so(lambda: self.cluster(self.second)["nodes"])
        return time.monotonic() - begun_s


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(10))
def test_another_machine_goes_on_from_the_copy_and_no_step_is_lost(seed: int) -> None:
    pytest.importorskip("torch")
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with Network(3) as network:
        site = Site(network)
        trains = submit(site.head, "trains", STEPS)
        moment = random.Random(seed).randrange(5, STEPS // 4)
        await_so(lambda: show(site.head, trains)["steps"] >= moment)
        before = show(site.head, trains)
        waits = submit(site.head, "waits", 16)  # acknowledged, and then the machine is gone
        site.head.kill()
        took_s = site.take_over()
        print(f"{took_s:.1f} s from the loss of the head until the next one has decided")
        assert took_s <= DECISION_S
        after = show(site.second, trains)
        assert (after["phase"], after["pids"], after["generation"]) == (
            "running",
            before["pids"],
            before["generation"],
        )
        for job_id in (trains, waits):
            ended = await_end(site.second, job_id)
            assert ended["metrics"] == {"samples_lost": 0.0, "samples_repeated": 0.0}
        assert "lost" not in swell(site.second, "explain", trains)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_head_that_was_only_cut_off_leaves_its_hosts_to_the_later_one_for_good() -> None:
    pytest.importorskip("torch")
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with Network(3) as network:
        site = Site(network)
        trains = submit(site.head, "trains", STEPS)
        await_so(lambda: show(site.head, trains)["steps"] >= 5)
        before = show(site.head, trains)
        site.head.partition()
        assert site.take_over() <= DECISION_S
        site.head.heal()
        await_so(site.head.outside(f"{STATE}/replaced").exists)
        await_so(lambda: not site.head.outside(f"{STATE}/agent.json").exists())
        ended = await_end(site.second, trains)
        assert ended["generation"] == before["generation"]
        assert ended["metrics"] == {"samples_lost": 0.0, "samples_repeated": 0.0}
        assert (
            "another head has taken this platform over" in site.head.outside(f"{STATE}/agent.log").read_text()
        )
