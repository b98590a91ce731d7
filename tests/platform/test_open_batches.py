"""Jobs whose batch may change, on real processes: it does change, and each sample is seen once an epoch."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from tests.eventually import PATIENCE_S, eventually
from tests.platform.program import DEVICES, SCRIPTS, Program, job_id, kill

from swell_papers.policies.pollux import INTERVAL_S

ENDLESS = 600  #: epochs of a job that ends when it is told to
VISITS = SCRIPTS / "visits.py"
RANGE = "32:256"


def read_visits(folder: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((folder / "visits.json").read_text())
    return found


class Ride:
    """Jobs of one platform, each with a folder of its own."""

    def __init__(self, swell: Program, folder: Path) -> None:
        self.swell = swell
        self._folder = folder
        self.ids: dict[str, str] = {}
        self._epochs: dict[str, int] = {}

    def submit(self, name: str, epochs: int, *options: object) -> str:
        folder = self._folder / name
        folder.mkdir()
        words = ("--script", VISITS, "--workdir", folder, "--name", name, "--epochs", epochs, *options)
        self._epochs[name] = epochs
        self.ids[name] = job_id(self.swell.ok("submit", "--no-wait", *words))
        return self.ids[name]

    def diary(self, name: str) -> list[tuple[int, ...]]:
        """(steps, pid of the leader, workers, batch, epoch) of each step so far."""
        path = self._folder / name / "diary"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [tuple(map(int, line.split())) for line in lines if line.endswith("\n")]

    def ways(self, name: str) -> list[tuple[int, ...]]:
        """(workers, batch) that it has trained with, without repetitions."""
        return [way for way, _ in groupby(entry[2:4] for entry in self.diary(name))]

    def await_way(
        self, name: str, is_it: Callable[[int, int], bool], what: str, patience_s: float = PATIENCE_S
    ) -> None:
        begun = len(self.diary(name))
        eventually(
            lambda: any(is_it(*entry[2:4]) for entry in self.diary(name)[begun:]),
            f"{name}: {what}",
            patience_s,
        )

    def end(self, name: str) -> None:
        """Before the next epoch but one, at whose beginning all workers know it."""
        self._epochs[name] = self.diary(name)[-1][4] + 2
        draft = self._folder / name / "draft"
        draft.write_text(str(self._epochs[name]))
        draft.rename(self._folder / name / "before")

    def check(self, name: str) -> float:
        """It has ended well, and every sample was seen once an epoch. Returns its final loss."""
        self.swell.await_end(self.ids[name])
        found = read_visits(self._folder / name)
        assert found["least"] == found["most"] == self._epochs[name], (name, self.ways(name))
        steps = [entry[0] for entry in self.diary(name)]
        assert all(one < other for one, other in pairwise(steps)), "no step was noted twice"
        return found["loss"]


@pytest.fixture
def ride(apart: Program, tmp_path: Path) -> Ride:
    apart.up_with("pollux", "min_hold_s=1")
    return Ride(apart, tmp_path)


def change_policy(swell: Program, policy: str, *options: object, devices: str = DEVICES) -> None:
    """While the daemon that is killed is away, the gangs go on."""
    daemon = swell.daemon_pid
    assert daemon is not None
    kill(daemon)
    swell.ok("up", "--devices", devices, "--policy", policy, *options)


def check_replay(swell: Program) -> None:
    found = swell.json("admin", "replay")
    assert found["first_difference"] is None and found["num_compared"] > 0


@pytest.mark.soak
def test_a_batch_follows_the_size_through_kills_of_daemon_and_workers_under_pollux_and_saxena(
    ride: Ride,
) -> None:
    swell = ride.swell
    first = ride.submit("first", ENDLESS, "--batch", RANGE)
    swell.await_job(first, lambda job: job.workers > 0, "a gang")
    # It doubles its workers, and pollux decides once a minute.
    ride.await_way(
        "first",
        lambda workers, batch: workers == 4 and batch > 96,
        "a batch for four workers",
        2 * INTERVAL_S + PATIENCE_S,
    )
    swell.await_job(first, lambda job: (job.noise_scale or 0.0) > 256, "what its script makes of its noise")
    # So more samples are worth it, up to the 32 for each worker that take no longer.
    ride.await_way("first", lambda workers, batch: workers == 4 and batch > 96, "that batch still")
    ride.submit("second", 8, "--batch", RANGE, "--global-batch", 64)
    ride.await_way("first", lambda workers, batch: workers < 4, "room for another")
    before = swell.await_job(first, lambda job: job.batch > 0 and job.workers > 0, "a gang")
    change_policy(swell, "saxena", "--set", "saxena.period_s=1")
    after = swell.job(first)
    assert (after.pids[: len(before.pids)], after.min_batch, after.max_batch) == (before.pids, 32, 256)
    ride.check("second")
    ride.await_way("first", lambda workers, batch: workers == 4 and batch > 96, "all devices once more")
    kill(swell.job(first).live_pids[1])
    ride.await_way("first", lambda workers, _: workers == 3, "the survivors")
    told = [story["code"] for story in swell.json("explain", first)]
    assert "workers_lost" in told and any(
        "samples in a step" in s["text"] for s in swell.json("explain", first)
    )
    ride.await_way(
        "first", lambda workers, batch: workers == 4 and batch > 96, "a worker in place of the lost"
    )
    ride.end("first")
    ride.check("first")
    assert {batch for _, batch in ride.ways("first")} >= {32, 128}
    check_replay(swell)
