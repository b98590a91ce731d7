"""What the gang protocol makes of workers on several machines."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import JOB, PuppetWorld, devices, is_stopped, make_stage, target

from swell.executors.exit_status import HOST_LOST
from swell.executors.gang.effects import FindPort, Report, Send, Spawn, WorkerExit
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.local_ranks import local_ranks
from swell.executors.gang.restart_state import Restarts
from swell.model.command import LaunchGang, Reconfigure, StopGang
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
    gang, orders = GangController(stage, GangRecord(), is_stopped), []
    for effect in gang.command(launch(stage, 0, 1, 4), 0.0):
        assert isinstance(effect, Spawn)
        gang.said(effect.worker, m.Hello(token="t", worker=effect.worker, pid=effect.worker + 1000), 0.0)
    for worker in range(3):
        told = gang.said(worker, m.Ready(grad_bytes=4, state_bytes=8, samples_per_epoch=64), 0.0)
        orders += [e.message for e in told if isinstance(e, Send)]
    regroups = [o for o in orders if isinstance(o, m.Regroup)]
    ranks = [(o.rank, o.local_rank, o.local_world_size, o.group_rank) for o in regroups]
    assert ranks == [(0, 0, 2, 0), (1, 1, 2, 0), (2, 0, 1, 1)]
    assert {o.num_hosts for o in regroups} == {2}


def test_a_host_that_is_lost_is_one_loss_and_one_regroup() -> None:
    stage = two_hosts()
    world = PuppetWorld(GangController(stage, GangRecord(), is_stopped))
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


def test_a_gang_whose_hosts_are_all_lost_is_lost() -> None:
    stage = two_hosts()
    world = PuppetWorld(GangController(stage, GangRecord(), is_stopped))
    world.command(launch(stage, 0, 4))
    world.settle()
    exits = [WorkerExit(number, HOST_LOST, "the network is gone") for number in world.puppets]
    world.puppets.clear()
    world._apply(world.gang.exited_together(exits, world.now_s))
    ended = world.events[-1]
    assert isinstance(ended, GangEnded)
    assert ended.outcome is Outcome.LOST


# ---------------------------------------------------------------- a host in other hands
def gang_of(*numbers: int) -> tuple[PuppetWorld, list[int], list[int]]:
    """That trains, and its workers on the host of rank 0, and those on the other one."""
    stage = two_hosts()
    world = PuppetWorld(GangController(stage, GangRecord(), is_stopped))
    world.command(launch(stage, *numbers))
    world.settle()
    leaders = [number for number, puppet in world.puppets.items() if stage.host_of(puppet.slot) == "a"]
    return world, leaders, [number for number in world.puppets if number not in leaders]


LIES = st.one_of(
    st.builds(m.Finished, steps=st.integers(0, 10**6)),
    st.builds(m.CheckpointSaved, steps=st.integers(10**5, 10**6), path=st.just("/c")),
    st.builds(m.SaveFailed, steps=st.integers(0, 10**6), message=st.just("no")),
    st.builds(
        m.Progress, generation=st.integers(0, 3), steps=st.integers(10**5, 10**6), num_workers=st.just(9)
    ),
    st.builds(m.Reported, values=st.just({"accuracy": 1.0})),
)


@given(st.lists(LIES, max_size=5), st.booleans())
def test_a_host_without_rank_0_does_not_speak_for_the_gang(lies: list[m.FromWorker], exits: bool) -> None:
    """Nothing that it says ends the gang, moves it on or gives it a checkpoint."""
    world, leaders, (other, *_) = gang_of(0, 1, 4, 5)
    saved, num_told = world.gang.gang.saved_steps, len(world.events)
    for lie in lies:
        world.gang.said(other, lie, world.now_s)
    if exits:
        world.gang.exited(other, 0, "", world.now_s)
    world.gang.tick(world.now_s + 1.0)
    told = world.events[num_told:]
    assert not any(isinstance(event, GangEnded) for event in told)
    assert not any("accuracy" in event.metrics for event in told if isinstance(event, StepsReported))
    assert world.gang.gang.saved_steps == saved and world.gang.steps < 10**5 and not world.gang.gang.is_ending
    world.gang.said(leaders[0], m.Finished(steps=1000), world.now_s)
    assert world.gang.gang.is_ending and world.gang.steps == 1000


def test_where_rank_0_is_lost_the_word_of_who_had_finished_counts() -> None:
    """Its host may have died when the script had come to its end."""
    world, leaders, others = gang_of(0, 4, 5)
    for number in others:
        world.gang.said(number, m.Finished(steps=1000), world.now_s)
    assert not world.gang.gang.is_ending
    lost = [WorkerExit(number, HOST_LOST, "host a is gone") for number in leaders]
    world.gang.exited_together(lost, world.now_s)
    effects = world.gang.exited_together([WorkerExit(number, 0, "") for number in others], world.now_s)
    (ended,) = (e.event for e in effects if isinstance(e, Report) and isinstance(e.event, GangEnded))
    assert ended.outcome is Outcome.SUCCEEDED


def test_a_gang_goes_on_without_a_worker_that_said_the_end_had_come() -> None:
    world, leaders, (other,) = gang_of(0, 1, 4)
    world.is_clean = False
    del world.puppets[other]
    world._apply(world.gang.said(other, m.Finished(steps=1000), world.now_s))
    world._apply(world.gang.exited(other, 0, "", world.now_s))
    for number in leaders:
        world._break(world.puppets[number])
    world.settle()
    (lost,) = (event for event in world.events if isinstance(event, WorkersLost))
    assert lost.devices == devices(4) and "had ended before the others" in lost.message
    assert set(world.puppets) == set(leaders)


@pytest.mark.parametrize("has_said", [True, False])
def test_a_worker_of_another_host_that_leaves_alone_fails_the_job(has_said: bool) -> None:
    world, leaders, (other,) = gang_of(0, 1, 4)
    if has_said:
        world._apply(world.gang.said(other, m.Finished(steps=5, is_early=True), world.now_s))
    world.kill(other, status=0)
    world.hear(other)
    broken = m.Broken(generation=1, steps=5, message="a peer is gone")
    world._apply(world.gang.said(leaders[0], broken, world.now_s))
    world.settle()
    (ended,) = (event for event in world.events if isinstance(event, GangEnded))
    assert ended.outcome is Outcome.FAILED and "rank 2 of 3) left its training loop" in ended.message


# ---------------------------------------------------------------- scripts that are stopped and started
def restart_gang() -> GangController:
    return GangController(
        two_hosts(elasticity=Elasticity.RESTART), GangRecord(restarts=Restarts()), is_stopped
    )


def test_a_script_finds_torchruns_environment_of_its_host() -> None:
    gang, stage = restart_gang(), two_hosts(elasticity=Elasticity.RESTART)
    assert gang.command(launch(stage, 0, 1, 4), 0.0) == [FindPort(devices(0))]
    spawns = gang.port_found("10.9.0.11", 4711, 0.0)
    assert all(isinstance(spawn, Spawn) for spawn in spawns)
    told = [(s.devices, s.environ) for s in spawns if isinstance(s, Spawn)]
    assert [seen for seen, _ in told] == [devices(0, 1), devices(0, 1), devices(4)]
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "WORLD_SIZE", "MASTER_ADDR")
    assert [[environ[name] for name in names] for _, environ in told] == [
        ["0", "0", "2", "0", "3", "10.9.0.11"],
        ["1", "1", "2", "0", "3", "10.9.0.11"],
        ["2", "0", "1", "1", "3", "10.9.0.11"],
    ]


def test_a_script_on_another_host_than_rank_0s_says_nothing_of_steps() -> None:
    gang, stage = restart_gang(), two_hosts(elasticity=Elasticity.RESTART)
    gang.command(launch(stage, 0, 4), 0.0)
    first, second = (s.worker for s in gang.port_found("10.9.0.11", 4711, 0.0) if isinstance(s, Spawn))
    for number in (first, second):
        gang.forked(number, 100 + number, 0.0)
    for lie in (m.Stepped(num_workers=2, steps=10**6, own_steps=10**6), m.Reported(values={"loss": 0.0})):
        assert gang.said(second, lie, 1.0) == []
    assert gang.steps == 0
    assert gang.said(first, m.Stepped(num_workers=2, steps=5, own_steps=5), 1.0) and gang.steps == 5


def test_a_port_that_comes_too_late_starts_nothing() -> None:
    gang, stage = restart_gang(), two_hosts(elasticity=Elasticity.RESTART)
    gang.command(launch(stage, 0), 0.0)
    (report,) = gang.command(StopGang(job_id=JOB, generation=1), 1.0)
    assert isinstance(report, Report) and isinstance(report.event, GangEnded)
    assert report.event.outcome is Outcome.STOPPED
    assert gang.port_found("127.0.0.1", 4711, 2.0) == []


def test_a_port_of_a_host_that_rank_0_has_left_is_not_used() -> None:
    gang, stage = restart_gang(), two_hosts(elasticity=Elasticity.RESTART)
    gang.command(launch(stage, 0), 0.0)
    assert gang.command(Reconfigure(job_id=JOB, generation=2, target=target(4)), 0.0) == []
    assert gang.port_found("10.9.0.11", 4711, 1.0) == [FindPort(devices(4))]
    (spawn,) = gang.port_found("10.9.0.12", 4712, 2.0)
    assert isinstance(spawn, Spawn) and spawn.environ["MASTER_ADDR"] == "10.9.0.12"


def test_a_gang_whose_host_goes_before_it_names_a_port_is_lost() -> None:
    gang, stage = restart_gang(), two_hosts(elasticity=Elasticity.RESTART)
    gang.command(launch(stage, 0), 0.0)
    (report,) = gang.no_port("host a is gone", 1.0)
    assert isinstance(report, Report) and isinstance(report.event, GangEnded)
    assert (report.event.outcome, report.event.message) == (Outcome.LOST, "host a is gone")


def test_a_host_that_rank_0_has_left_need_not_name_a_port() -> None:
    gang, stage = restart_gang(), two_hosts(elasticity=Elasticity.RESTART)
    gang.command(launch(stage, 0), 0.0)
    gang.command(Reconfigure(job_id=JOB, generation=2, target=target(4)), 0.0)
    assert gang.no_port("host a is gone", 1.0) == [FindPort(devices(4))]
    (spawn,) = gang.port_found("10.9.0.12", 4712, 2.0)
    assert isinstance(spawn, Spawn) and spawn.environ["MASTER_ADDR"] == "10.9.0.12"
