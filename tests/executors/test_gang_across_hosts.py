"""What the gang protocol makes of workers on several machines."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import JOB, hear_said, make_stage, target

from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, Restarts
from swell.executors.gang.host_messages import StartWorker, TellWorker
from swell.executors.gang.job_context import JobContext, local_ranks
from swell.executors.gang.restarts import RestartController
from swell.model.command import LaunchGang
from swell.model.event import GangEnded, Outcome
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
        assert isinstance(effect, StartWorker)
        hear_said(
            gang, effect.worker, m.Hello(token="t", worker=effect.worker, pid=effect.worker + 1000), 0.0
        )
    for worker in range(3):
        told = hear_said(gang, worker, m.Ready(), 0.0)
        orders += [e.message for e in told if isinstance(e, TellWorker)]
    regroups = [o for o in orders if isinstance(o, m.Regroup)]
    ranks = [(o.rank, o.local_rank, o.local_world_size, o.group_rank) for o in regroups]
    assert ranks == [(0, 0, 2, 0), (1, 1, 2, 0), (2, 0, 1, 1)]
    assert {o.num_hosts for o in regroups} == {2}


# ---------------------------------------------------------------- scripts that are stopped and started


def test_a_gang_whose_host_goes_before_it_starts_there_is_lost() -> None:
    stage = dataclasses.replace(two_hosts(elasticity=Elasticity.RESTART), meeting_points={})
    gang = RestartController(stage, GangRecord(restarts=Restarts()))
    (report,) = gang.command(launch(stage, 0), 0.0)
    assert isinstance(report, GangEnded)
    assert (report.outcome, report.message) == (Outcome.LOST, "its host is gone")
