"""All-reduces over several hosts are measured in trial runs: controller and hosts, without processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.executors.fake_hosts import FakeHost, FakeWorker, Fleet
from tests.executors.puppets import make_spec

from swell.executors.gang import host_messages as h
from swell.executors.gang.trial_plan import NUMS_OF_HOSTS, GroupTimes
from swell.model.command import ProfileJob
from swell.model.event import JobProfiled, Outcome
from swell.model.job import Profile
from swell.wire import messages as m

MEGABYTE = 1_000_000
#: Bytes -> seconds, on one host and over two.
WITHIN, ACROSS = {MEGABYTE: 0.01}, {MEGABYTE: 0.5}
#: Hosts -> workers -> seconds more.
CROSSING = {num: {2: pytest.approx((num - 1) * 2 * 0.5 - 0.01)} for num in NUMS_OF_HOSTS}


class MeasuringFleet(Fleet):
    """Groups that calibrate tell what they have measured, and scripts what their steps take."""

    is_reachable = True
    is_stuck = False  #: groups on several hosts measure on and on

    def obey(self, worker: FakeWorker, said: m.FromAgent) -> None:
        if isinstance(said, m.Regroup) and said.num_hosts > 1 and self.is_stuck:
            pass
        elif isinstance(said, m.Regroup) and said.num_hosts > 1 and not self.is_reachable:
            worker.order = said
            worker.say(m.JoinFailed(generation=said.generation, steps=0, message="no program listens"))
        else:
            super().obey(worker, said)

    def _form(self, run: str, generation: int) -> None:
        group = [w for w in self.workers(run) if w.order is not None and w.order.generation == generation]
        if not run.startswith("trial:"):
            super()._form(run, generation)
        elif group and group[0].order is not None and len(group) == group[0].order.num_workers:
            hosts = {worker.host.name for worker in group}
            assert all(w.order is not None and w.order.num_hosts == len(hosts) for w in group)
            places = [(w.host.name, w.order.group_rank, w.order.local_rank) for w in group if w.order]
            assert len(set(places)) == len(group) and len({place[:2] for place in places}) == len(hosts)
            (first,) = [w for w in group if w.order is not None and w.order.rank == 0]
            first.say(m.Calibrated(allreduce_s=ACROSS if len(hosts) > 1 else WITHIN))
            for worker in group:
                worker.host.exit(worker, 0)

    def run_scripts(self) -> None:
        for host in list(self.hosts.values()):
            for worker in list(host.workers.values()):
                if worker.welcome is not None and worker.welcome.mode == "profile":
                    worker.say(
                        m.Profiled(
                            compute_s={64: 0.1}, grad_bytes=MEGABYTE, state_bytes=8, samples_per_epoch=512
                        )
                    )
                    host.exit(worker, 0)

    def profiles(self) -> list[Profile]:
        return [event.profile for event in self.events if isinstance(event, JobProfiled)]

    def add(self, job: str, sizes: tuple[int, ...] = (1, 2, 4)) -> None:
        entry = f"/scripts/{job}.py"
        self.perform(ProfileJob(job_id=job, spec=make_spec(entry=entry), sizes=sizes, device_kind="cpu"))

    def open_runs(self) -> dict[str, list[str]]:
        return {host.name: sorted(host.runs) for host in self.hosts.values() if host.runs}


@pytest.fixture
def fleet(tmp_path: Path) -> MeasuringFleet:
    return MeasuringFleet(tmp_path, "ab")


def test_it_is_measured_once_for_a_kind_of_device_and_known_to_all_later_jobs(
    fleet: MeasuringFleet, tmp_path: Path
) -> None:
    fleet.add("a")
    fleet.run_scripts()
    told = sum(isinstance(message, h.OpenRun) for message in fleet.hosts["b"].told)
    fleet.add("b")
    fleet.run_scripts()
    fleet.run_scripts()
    assert [profile.crossing_s for profile in fleet.profiles()] == [CROSSING] * 2
    assert sum(isinstance(message, h.OpenRun) for message in fleet.hosts["b"].told) == told
    again = MeasuringFleet(tmp_path, "ab")  # another controller, on what was kept
    again.add("c")
    again.run_scripts()
    assert again.profiles()[0].crossing_s == CROSSING


def test_hosts_that_do_not_reach_each_other_are_done_without_and_not_tried_again(
    fleet: MeasuringFleet,
) -> None:
    fleet.is_reachable = False
    for job in ("a", "b"):
        fleet.add(job)
        fleet.run_scripts()
    assert [profile.crossing_s for profile in fleet.profiles()] == [{}, {}]
    opened = [message for message in fleet.hosts["b"].told if isinstance(message, h.OpenRun)]
    assert len(opened) <= 2 and not fleet.open_runs()  # its own trial, and one crossing


def others(fleet: MeasuringFleet) -> FakeHost:
    """The host that is to take part in the measurement of a job whose trial runs on the other one."""
    return fleet.hosts["b"]


def test_a_host_that_does_not_answer_holds_no_job_up(fleet: MeasuringFleet) -> None:
    others(fleet).is_held = True
    fleet.add("a")
    fleet.run_scripts()
    assert fleet.profiles()[0].crossing_s == {}
    others(fleet).let_through()  # it has opened the run by now
    assert not fleet.open_runs()


@pytest.mark.parametrize("num_hosts", NUMS_OF_HOSTS)
def test_sums_over_more_hosts_take_what_a_ring_of_them_does(num_hosts: int) -> None:
    """And what workers say takes what a message does that is hardly longer than none."""
    latency_s, s_per_byte, num_bytes = 0.003, 1e-8, 48 * MEGABYTE // 100
    sizes = [1, *(2 * num_bytes // num for num in NUMS_OF_HOSTS)]
    times = GroupTimes(crossing_s={size: 2 * latency_s + s_per_byte * size for size in sizes})
    ring_s, said_s = (
        2 * (num_hosts - 1) * (latency_s + s_per_byte * size / num_hosts) for size in (num_bytes, 1)
    )
    assert times.extra_s(num_bytes)[num_hosts][2] == pytest.approx(ring_s + said_s)


@pytest.mark.parametrize("what", ["lost", "refuses"])
def test_a_host_that_cannot_take_part_costs_nothing(fleet: MeasuringFleet, what: str) -> None:
    if what == "refuses":
        others(fleet).refusal = Outcome.LOST, "no room on its disk"
    else:
        others(fleet).is_held = True
    fleet.add("a")
    if what == "lost":
        fleet.lose("b")
    fleet.run_scripts()
    fleet.pass_time(0.2)
    assert fleet.profiles()[0].crossing_s == {}
