"""What the gang protocol makes of workers on several machines."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import JOB, make_stage, target

from swell.executors.gang.gang_record import GangRecord, Restarts
from swell.executors.gang.job_context import JobContext, local_ranks
from swell.executors.gang.restarts import RestartController
from swell.model.command import LaunchGang
from swell.model.event import GangEnded, Outcome
from swell.model.job import Elasticity


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


# ---------------------------------------------------------------- scripts that are stopped and started


def test_a_gang_whose_host_goes_before_it_starts_there_is_lost() -> None:
    stage = dataclasses.replace(two_hosts(elasticity=Elasticity.RESTART), meeting_points={})
    gang = RestartController(stage, GangRecord(restarts=Restarts()))
    (report,) = gang.command(launch(stage, 0), 0.0)
    assert isinstance(report, GangEnded)
    assert (report.outcome, report.message) == (Outcome.LOST, "its host is gone")
