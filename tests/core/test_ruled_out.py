"""A host that lacks what a job needs: the job goes elsewhere, or waits for another one, and never fails."""

from __future__ import annotations

import pytest
from tests.core.bench import Bench, only
from tests.core.fakes import node, spec

from swell.core.setbacks import MAX_SETBACKS
from swell.model.command import LaunchGang, ProfileJob, Reconfigure
from swell.model.event import (
    GangEnded,
    HostRuledOut,
    NodeCleared,
    NodeJoined,
    NodeLost,
    NodeWarned,
    Outcome,
    ProfilingFailed,
    ResizeFailed,
    Woke,
)
from swell.model.job import Phase
from swell.placement.best_fit import BestFitPlacer

WHY = "/data is not on host 'n0', and the job needs it (`needs`)"


def bench_of(num_nodes: int) -> Bench:
    bench = Bench(num_devices=4, placer=BestFitPlacer())
    for number in range(1, num_nodes):
        bench.say(NodeJoined(at_s=bench.now_s, node=node(f"n{number}", 4)))
    return bench


def ruled_out(bench: Bench, devices: tuple[str, ...], job_id: str = "a") -> HostRuledOut:
    """All devices of the nodes of these are the host's."""
    names = {device.split(".")[0] for device in devices}
    own = tuple(d for name in sorted(names) for d in node(name, 4).devices)
    return HostRuledOut(at_s=bench.now_s, job_id=job_id, devices=own, message=WHY)


def refused(bench: Bench, launch: LaunchGang) -> GangEnded:
    return GangEnded(
        at_s=bench.now_s,
        job_id=launch.job_id,
        generation=launch.generation,
        outcome=Outcome.LOST,
        steps=0,
        message=f"job 'a' cannot be started: {WHY}",
    )


def refuse(bench: Bench, launch: LaunchGang) -> list[LaunchGang]:
    """What follows at once."""
    commands = bench.say(ruled_out(bench, launch.target.devices), refused(bench, launch))
    return [command for command in commands if isinstance(command, LaunchGang)]


def home(command: LaunchGang | Reconfigure) -> str:
    [name] = {device.split(".")[0] for device in command.target.devices}
    return name


def test_a_launch_that_a_host_refuses_goes_to_the_next_one_at_once_however_many_refuse() -> None:
    num = MAX_SETBACKS + 2
    bench = bench_of(num)
    bench.want(a=2)
    bench.submit("a")
    launch, homes = only(bench.profiled("a"), LaunchGang), list[str]()
    for _ in range(num - 1):
        homes.append(home(launch))
        [launch] = refuse(bench, launch)
    assert home(launch) not in homes and len(set(homes)) == num - 1
    bench.started(launch.generation)
    assert bench.phase() is Phase.RUNNING


@pytest.mark.parametrize("how", ["undone", "again"])
def test_a_node_that_has_come_again_or_was_released_is_asked_again(how: str) -> None:
    bench = bench_of(1)
    bench.want(a=2)
    bench.submit("a")
    refuse(bench, only(bench.profiled("a"), LaunchGang))
    if how == "undone":
        bench.say(NodeWarned(at_s=bench.now_s, name="n0"))
        commands = bench.say(NodeCleared(at_s=bench.now_s, name="n0"))
    else:
        bench.say(NodeLost(at_s=bench.now_s, name="n0"))
        commands = bench.say(NodeJoined(at_s=bench.now_s, node=node("n0", 4)))
    assert home(only(commands, LaunchGang)) == "n0"


def test_a_job_grows_to_what_hosts_with_its_needs_have() -> None:
    """Its gang stays where it is, and is not held back."""
    bench = bench_of(3)
    generation = bench.run("a", 4, spec(1000, max_workers=12))
    bench.want(a=8)
    change = only(bench.say(Woke(at_s=bench.now_s), after_s=10.0), Reconfigure)
    [new] = {d.split(".")[0] for d in change.target.devices} - {
        d.split(".")[0] for d in bench.job().devices[:4]
    }
    failed = ResizeFailed(at_s=bench.now_s, job_id="a", generation=change.generation, message=WHY)
    commands = bench.say(ruled_out(bench, (f"{new}.0",)), failed)
    again = only(commands, Reconfigure)
    assert len(again.target.devices) == 8 and new not in {d.split(".")[0] for d in again.target.devices}
    assert again.generation > change.generation > generation


def test_a_trial_run_that_no_host_can_do_is_no_failure_and_is_asked_for_again() -> None:
    bench = bench_of(1)
    bench.want(a=2)
    trial = only(bench.submit("a"), ProfileJob)
    for _ in range(MAX_SETBACKS + 1):
        lost = ProfilingFailed(
            at_s=bench.now_s, job_id="a", message=WHY, outcome=Outcome.LOST, attempt=trial.attempt
        )
        assert bench.say(ruled_out(bench, node("n0", 4).devices), lost) == []
        assert bench.job().reason == f"waits for a node that has what it needs: {WHY}"
        bench.say(NodeWarned(at_s=bench.now_s, name="n0"))
        trial = only(bench.say(NodeCleared(at_s=bench.now_s, name="n0")), ProfileJob)
    assert bench.phase() is Phase.QUEUED
