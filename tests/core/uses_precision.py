"""Uses a made-up dimension of a configuration; only the product that `test_new_dimension` has patched has it.

Argument: an empty folder. Prints what was tried.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

from tests.core.bench import Bench, only
from tests.core.fakes import Fixed
from tests.executors.listening import Listener
from tests.executors.puppets import JOB, PuppetWorld, devices, make_spec, make_stage
from tests.sim.worlds import job

from swell.core.core import Core
from swell.core.planner import Planner
from swell.core.platform_core import PlatformCore
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, SettledGang
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.link import LocalExecutor
from swell.model.coding import decoder, encode
from swell.model.command import AnyCommand, LaunchGang, Reconfigure, StopGang
from swell.model.event import AnyEvent, GangEnded, GangResized, GangStarted, ResizeFailed
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.model.target import Configuration, Target
from swell.placement.best_fit import BestFitPlacer
from swell.policies.fifo import Fifo
from swell.settings import Settings
from swell.sim.change_cost import change_cost
from swell.sim.simulate import Scenario, cluster, simulate
from swell.throughput.belief import FittedBelief

SCRIPT = """
import os, time
import torch
from torch.utils.data import DataLoader, TensorDataset
from swell import train

model = torch.nn.Linear(2, 1)
loader = DataLoader(TensorDataset(torch.ones(640, 2)), batch_size=64)
run = train.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1), loader, epochs=1000)
for _ in run.epochs():
    for (x,) in run.batches():
        model.zero_grad()
        loss = model(x).mean()
        loss.backward()
        run.step(loss)
        print(os.environ["MADE_UP_PRECISION"], flush=True)
        time.sleep(0.02)
"""


def configuration(precision: str | None) -> Configuration:
    made: Configuration = cast(Any, Configuration)(precision=precision)
    return made


def precise(allocation: Allocation, precision: str | None) -> Allocation:
    changed: Allocation = cast(Any, replace)(allocation, precision=(precision,) * len(allocation.option))
    return changed


class PreciseFixed(Fixed):
    name = "precise_fixed"
    now: list[str | None] = []

    def decide(self, snapshot: Snapshot) -> Allocation:
        return precise(super().decide(snapshot), self.now[-1])


class PreciseFifo(Fifo):
    name = "precise_fifo"

    def decide(self, snapshot: Snapshot) -> Allocation:
        return precise(super().decide(snapshot), "half" if snapshot.now_s < 20.0 else "double")


def try_head() -> None:
    policy = PreciseFixed(is_floor=False, now=["half"])
    bench = Bench(policy=policy)
    bench.want(a=2)
    bench.submit("a")
    launch = only(bench.profiled("a"), LaunchGang)
    assert launch.target.configuration == configuration("half")
    bench.started(launch.generation)
    policy.now.append("double")
    bench.submit("other")
    asked = [command for command in bench.profiled("other") if isinstance(command, Reconfigure)]
    assert [command.target.configuration for command in asked] == [configuration("double")]
    print("head")


class NotedCore(Core):
    """Its commands and what it hears are noted."""

    noted: ClassVar[list[AnyCommand | AnyEvent]] = []

    def handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        commands = super().handle(batch)
        self.noted.extend([*batch, *commands])
        return commands


def try_simulation() -> None:
    policy = PreciseFifo(period_s=10.0)
    planner = Planner(policy, BestFitPlacer(), {policy.name: policy})
    scenario = Scenario(
        nodes=cluster(1, 2, "cpu", None),
        jobs=[job("a", steps=100, rates={1: 1.0, 2: 2.0})],
        cost=change_cost("none", 2),
    )
    head = PlatformCore(lambda: NotedCore(planner, FittedBelief(), Settings().core))
    simulate(head, scenario)
    (launch,) = [one for one in NotedCore.noted if isinstance(one, LaunchGang)]
    (change,) = [one for one in NotedCore.noted if isinstance(one, Reconfigure)]
    assert launch.target.configuration == configuration("half")
    assert change.target.configuration == configuration("double")
    assert any(isinstance(one, GangResized) for one in NotedCore.noted)
    print("simulation")


def try_record() -> None:
    world = PuppetWorld(GangController(make_stage(), GangRecord()))
    target = Target(devices=devices(0, 1), configuration=configuration("half"))
    world.command(LaunchGang(job_id=JOB, generation=1, target=target, spec=make_spec(), total_steps=1000))
    world.settle()
    settled: SettledGang = decoder(SettledGang).decode(encode(world.gang.gang.settled))
    assert settled.configuration == world.gang.gang.wanted_configuration == configuration("half")
    target = Target(devices=devices(0, 1, 2), configuration=configuration("double"))
    world.command(Reconfigure(job_id=JOB, generation=2, target=target))
    (joiner,) = set(world.puppets) - {0, 1}
    world.kill(joiner)
    world.settle()
    assert any(isinstance(event, ResizeFailed) for event in world.events)
    assert {cast(Any, p.regroup).precision for p in world.puppets.values()} == {"half"}, "it is undone"
    print("record")


def try_workers(folder: Path) -> None:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    options = AgentOptions(state_dir=folder / "state")
    executor, listener = LocalExecutor(options, parse_devices("cpu:2")), Listener()
    executor.start(listener.put)
    spec = make_spec(entry=str(script), workdir=str(folder))
    target = Target(devices=devices(0), configuration=configuration("half"))
    executor.perform(LaunchGang(job_id=JOB, generation=1, target=target, spec=spec, total_steps=10**6))
    listener.wait(GangStarted, 1)
    target = Target(devices=devices(0), configuration=configuration("double"))
    executor.perform(Reconfigure(job_id=JOB, generation=2, target=target))
    listener.wait(GangResized, 2)
    deadline_s = time.monotonic() + 30.0
    while (said := lines(folder)) and "double" not in said and time.monotonic() < deadline_s:
        time.sleep(0.05)
    executor.perform(StopGang(job_id=JOB, generation=2))
    listener.wait(GangEnded, 2)
    executor.shut_down()
    assert list(dict.fromkeys(lines(folder))) == ["half", "double"], lines(folder)
    print("workers")


def lines(folder: Path) -> list[str]:
    return [line for log in folder.rglob("worker-*.log") for line in log.read_text().split()]


if __name__ == "__main__":
    try_head()
    try_simulation()
    try_record()
    try_workers(Path(sys.argv[1]))
