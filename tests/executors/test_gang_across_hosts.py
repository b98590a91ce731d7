"""What the gang protocol makes of workers on several machines."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import JOB, PuppetWorld, devices, make_stage, target

from swell.executors.exit_status import HOST_LOST
from swell.executors.gang.effects import Report, Send, Spawn, WorkerExit
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, Restarts
from swell.executors.gang.job_context import JobContext, local_ranks
from swell.executors.gang.restarts import RestartController
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import GangEnded, GangResized, Outcome, StepsReported, WorkersLost
from swell.model.job import Elasticity
from swell.wire import messages as m


def two_hosts(**changes: object) -> JobContext:
    """Devices 0 to 3 are of host a, 4 to 7 of host b."""
    hosts = {f"node0/{number}": "ab"[number // 4] for number in range(8)}
    return dataclasses.replace(make_stage(**changes), hosts=hosts)  # type: ignore[arg-type]


def launch(stage: JobContext, *numbers: int) -> LaunchGang:
    return LaunchGang(
        job_id=JOB, generation=1, target=target(*numbers), spec=stage.spec, total_steps=stage.total_steps
    )


@given(st.lists(st.sampled_from("abc")))
def test_local_ranks_count_up_within_each_host(hosts: list[str]) -> None:
    ranks = local_ranks(hosts)
    for host in set(hosts):
        of_host = [rank for rank, name in zip(ranks, hosts, strict=True) if name == host]
        assert [rank.local_rank for rank in of_host] == list(range(len(of_host)))
        assert {rank.local_world_size for rank in of_host} == {len(of_host)}
        assert len({rank.group_rank for rank in of_host}) == 1
    assert sorted({rank.group_rank for rank in ranks}) == list(range(len(set(hosts))))


def test_members_of_a_group_are_told_their_ranks_on_their_own_host() -> None:
    stage = two_hosts()
    gang, orders = GangController(stage, GangRecord()), []
    for effect in gang.command(launch(stage, 0, 1, 4), 0.0):
        assert isinstance(effect, Spawn)
        gang.said(effect.worker, m.Hello(token="t", worker=effect.worker, pid=effect.worker + 1000), 0.0)
    for worker in range(3):
        told = gang.said(worker, m.Ready(), 0.0)
        orders += [e.message for e in told if isinstance(e, Send)]
    regroups = [o for o in orders if isinstance(o, m.Regroup)]
    ranks = [(o.rank, o.local_rank, o.local_world_size, o.group_rank) for o in regroups]
    assert ranks == [(0, 0, 2, 0), (1, 1, 2, 0), (2, 0, 1, 1)]
    assert {o.num_hosts for o in regroups} == {2}


def test_a_host_that_is_lost_is_one_loss_and_one_regroup() -> None:
    stage = two_hosts()
    world = PuppetWorld(GangController(stage, GangRecord()))
    world.command(launch(stage, 0, 1, 4, 5, 6))
    world.settle()
    round_before = world.newest_round
    gone = [number for number, puppet in world.puppets.items() if stage.host_of(puppet.slot) == "b"]
    for number in gone:
        del world.puppets[number]
    exits = [WorkerExit(number, HOST_LOST, "host b is gone") for number in gone]
    world.is_clean = False
    world._apply(world.gang.exited_together(exits, world.now_s))
    world.settle()
    (lost,) = (event for event in world.events if isinstance(event, WorkersLost))
    assert lost.devices == devices(4, 5, 6)
    assert "was lost: host b is gone" in lost.message
    assert world.newest_round == round_before + 1
    world.command(Reconfigure(job_id=JOB, generation=2, target=target(0, 1)))
    world.settle()
    assert isinstance([e for e in world.events if not isinstance(e, StepsReported)][-1], GangResized)


# ---------------------------------------------------------------- scripts that are stopped and started
def restart_gang() -> RestartController:
    return RestartController(two_hosts(elasticity=Elasticity.RESTART), GangRecord(restarts=Restarts()))


def test_a_script_finds_torchruns_environment_of_its_host() -> None:
    gang, stage = restart_gang(), two_hosts(elasticity=Elasticity.RESTART)
    spawns = gang.command(launch(stage, 0, 1, 4), 0.0)
    assert all(isinstance(spawn, Spawn) for spawn in spawns)
    told = [(s.devices, s.environ) for s in spawns if isinstance(s, Spawn)]
    assert [seen for seen, _ in told] == [devices(0, 1), devices(0, 1), devices(4)]
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "WORLD_SIZE", "MASTER_ADDR")
    assert [[environ[name] for name in names] for _, environ in told] == [
        ["0", "0", "2", "0", "3", "10.9.0.1a"],
        ["1", "1", "2", "0", "3", "10.9.0.1a"],
        ["2", "0", "1", "1", "3", "10.9.0.1a"],
    ]


def test_a_gang_whose_host_goes_before_it_starts_there_is_lost() -> None:
    stage = dataclasses.replace(two_hosts(elasticity=Elasticity.RESTART), meeting_points={})
    gang = RestartController(stage, GangRecord(restarts=Restarts()))
    (report,) = gang.command(launch(stage, 0), 0.0)
    assert isinstance(report, Report) and isinstance(report.event, GangEnded)
    assert (report.event.outcome, report.event.message) == (Outcome.LOST, "its host is gone")
