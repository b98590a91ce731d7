"""What hosts had to get before a start: charged where it may happen again, and no cost of other starts."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.bench import Bench, only
from tests.core.fakes import Fixed, node

from swell.model.command import LaunchGang
from swell.model.event import GangStarted, HostFetched, NodeJoined
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.placement.best_fit import BestFitPlacer


class Watching(Fixed):
    """Keeps what a start is expected to cost."""

    start_s: dict[str, float] = msgspec.field(default_factory=dict)

    def decide(self, snapshot: Snapshot) -> Allocation:
        self.start_s.update(zip(snapshot.job_ids, snapshot.start_cost_s.tolist(), strict=True))
        return super().decide(snapshot)


def started(took_s: float, fetched_s: float, num_nodes: int = 1) -> Bench:
    """A job whose start took so long, of which its host needed a part to get data."""
    bench = Bench(num_devices=4, policy=Watching(), placer=BestFitPlacer())
    for number in range(1, num_nodes):
        bench.say(NodeJoined(at_s=bench.now_s, node=node(f"n{number}", 4)))
    bench.want(a=1)
    bench.submit("a")
    launch = only(bench.profiled("a"), LaunchGang)
    home = launch.target.devices[0].split(".")[0]
    bench.now_s += took_s
    if fetched_s:
        took = {"data": fetched_s}
        bench.say(
            HostFetched(at_s=bench.now_s, job_id="a", devices=node(home, 4).devices, took_s=took), after_s=0.0
        )
    bench.say(GangStarted(at_s=bench.now_s, job_id="a", generation=launch.generation, steps=0, pids=(1,)))
    return bench


def expected_s(bench: Bench, job_id: str) -> float:
    """What a start of the job is expected to cost, once another one has come."""
    bench.submit("b")
    bench.profiled("b")
    assert isinstance(bench.policy, Watching)
    return bench.policy.start_s[job_id]


def test_starts_of_others_are_learnt_without_it() -> None:
    plain_s, fetching_s = (expected_s(started(*took), "b") for took in ((2.0, 0.0), (102.0, 100.0)))
    assert fetching_s == pytest.approx(plain_s)


def test_it_is_charged_while_a_node_may_lack_it() -> None:
    alone_s, beside_s = (expected_s(started(102.0, 100.0, num), "a") for num in (1, 2))
    assert alone_s < 10.0
    assert beside_s >= 100.0


def test_its_owner_is_told() -> None:
    bench = Bench(num_devices=4)
    bench.run("a", 1)
    devices = node("n0", 4).devices
    bench.say(HostFetched(at_s=bench.now_s, job_id="a", devices=devices, took_s={"image": 31.2, "data": 7.0}))
    [told] = [story.text for _, story in bench.core.stories() if story.code == "fetched"]
    assert told == "n0 got its data in 7 s and its image in 31 s"
