"""What may happen to machines and to processes of the platform. No process is told; each is back afterwards.

A strike waits for states of the platform, and for a time only where that is what is tried: a partition, or a
stop, that is shorter than the lease.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.chaos.machines.fleet import PATIENCE_S, TIMES, Fleet, Host, described
from tests.chaos.machines.work import Job, Work
from tests.eventually import eventually

from swell.api.errors import ApiError
from swell.executors.local.processes.listing import is_alive

Strike = Callable[["Campaign"], None]
KILLS: dict[str, Strike] = {}
PARTITIONS: dict[str, Strike] = {}
FREEZES: dict[str, Strike] = {}
#: Shares of a lease that end well before it.
SHORT = (0.05, 0.35)


@dataclass
class Campaign:
    fleet: Fleet
    work: Work
    chance: Random
    told: list[str] = field(default_factory=list)  #: what was done, for the reader of a failure

    def host(self) -> Host:
        """One that the platform has, if possible with workers."""
        joined = eventually(self.fleet.joined, "a host that has joined", PATIENCE_S)
        there = [host for host in self.fleet.hosts if host.name in joined and host.runs]
        busy = [host for host in there if host.workers()]
        return self.chance.choice(busy or there or self.fleet.hosts)

    def for_a_moment(self) -> None:
        """Shorter than a lease."""
        time.sleep(TIMES.lease_s * self.chance.uniform(*SHORT))

    def note_kill(self, *hosts: Host) -> None:
        """Jobs that have workers there are to tell that they lost them, or that they had come to their end.

        The cause that they tell may be another one: the next fault may strike before this one is noticed.
        """
        for host in hosts:
            now_s, jobs = self._jobs_on(host)
            for job in jobs:
                job.killed_s.append(now_s)

    def _jobs_on(self, host: Host) -> tuple[float, list[Job]]:
        """With the head's time; none if it does not answer."""
        try:
            with self.fleet.head.client() as client:
                now_s, views = client.cluster().now_s, client.jobs()
        except (ApiError, OSError):
            return 0.0, []
        on = [v for v in views if any(host.is_named(device.partition("/")[0]) for device in v.devices)]
        return now_s, [self.work.every[view.id] for view in on if not view.phase.is_end]

    def await_loss(self, host: Host) -> None:
        """The platform gives up what the host held: none of its workers runs then."""
        workers = host.workers()
        eventually(lambda: host.name not in self.fleet.joined(), f"the loss of {host.name}", PATIENCE_S)
        left = [pid for pid in workers if is_alive(pid) and not _is_stopped(pid)]
        assert not left, f"workers {left} of {host.name} run after it was given up"


def _is_stopped(pid: int) -> bool:
    import psutil

    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return True


def kill(strike: Strike) -> Strike:
    KILLS[strike.__name__] = strike
    return strike


def partition(strike: Strike) -> Strike:
    PARTITIONS[strike.__name__] = strike
    return strike


def freeze(strike: Strike) -> Strike:
    FREEZES[strike.__name__] = strike
    return strike


# ---------------------------------------------------------------- kills
@kill
def kill_a_machine(campaign: Campaign) -> None:
    """It comes back without its files, before or after it is given up."""
    host = campaign.host()
    campaign.note_kill(host)
    host.kill_machine()
    if campaign.chance.random() < 0.5:
        eventually(lambda: host.name not in campaign.fleet.joined(), f"the loss of {host.name}", PATIENCE_S)
    host.machine.start()
    host.start()


@kill
def kill_two_machines(campaign: Campaign) -> None:
    victims = campaign.chance.sample(campaign.fleet.hosts, 2)
    campaign.note_kill(*victims)
    for host in victims:
        host.kill_machine()
    for host in victims:
        host.machine.start()
        host.start()


@kill
def crash_a_machine(campaign: Campaign) -> None:
    """It comes back with its files."""
    host = campaign.host()
    campaign.note_kill(host)
    host.crash()
    host.start()


@kill
def kill_a_host_process(campaign: Campaign) -> None:
    host = campaign.host()
    campaign.note_kill(host)
    host.kill_process()
    host.start()


@kill
def kill_workers(campaign: Campaign) -> None:
    workers = campaign.host().workers()
    for pid in campaign.chance.sample(workers, min(len(workers), campaign.chance.randint(1, 2))):
        _kill(pid)


def _kill(pid: int) -> None:
    import psutil

    try:
        psutil.Process(pid).kill()
    except psutil.NoSuchProcess:
        pass


@kill
def kill_the_controller(campaign: Campaign) -> None:
    head = campaign.fleet.head
    head.send(signal.SIGKILL, head.agent)


@kill
def kill_the_daemon(campaign: Campaign) -> None:
    head = campaign.fleet.head
    head.send(signal.SIGKILL, head.daemon)
    head.await_end_of_daemon()
    campaign.for_a_moment()


@kill
def kill_controller_and_daemon(campaign: Campaign) -> None:
    head = campaign.fleet.head
    head.send(signal.SIGKILL, head.daemon, head.agent)
    head.await_end_of_daemon()


@kill
def kill_controller_and_a_machine(campaign: Campaign) -> None:
    host, head = campaign.host(), campaign.fleet.head
    campaign.note_kill(host)
    head.send(signal.SIGKILL, head.agent)
    host.kill_machine()
    host.machine.start()
    host.start()


@kill
def kill_all_processes_of_the_head(campaign: Campaign) -> None:
    """Until hosts have given up, or not."""
    head = campaign.fleet.head
    head.machine.run("sh", "-c", "kill -9 -1 || true")
    head.await_end_of_daemon()
    if campaign.chance.random() < 0.3:
        hosts = campaign.fleet.hosts
        eventually(
            lambda: not any(host.workers() for host in hosts), "the end of workers without a head", PATIENCE_S
        )


# ---------------------------------------------------------------- partitions
@partition
def cut_a_machine_off_for_a_moment(campaign: Campaign) -> None:
    host = campaign.host()
    host.machine.partition()
    campaign.for_a_moment()
    host.machine.heal()


@partition
def cut_a_machine_off_until_it_is_given_up(campaign: Campaign) -> None:
    host = campaign.host()
    campaign.note_kill(host)
    host.machine.partition()
    campaign.await_loss(host)
    host.machine.heal()


@partition
def cut_the_head_off_for_a_moment(campaign: Campaign) -> None:
    machine = campaign.fleet.head.machine
    machine.partition()
    campaign.for_a_moment()
    machine.heal()


@partition
def cut_the_head_off_until_all_are_given_up(campaign: Campaign) -> None:
    machine = campaign.fleet.head.machine
    machine.partition()
    eventually(lambda: not campaign.fleet.joined(), "the loss of all hosts", PATIENCE_S)
    left = {host.name: [described(pid) for pid in host.workers()] for host in campaign.fleet.hosts}
    machine.heal()
    assert not any(left.values()), f"workers {left} run after their hosts were given up"


@partition
def cut_a_machine_off_and_kill_the_controller(campaign: Campaign) -> None:
    host, head = campaign.host(), campaign.fleet.head
    host.machine.partition()
    head.send(signal.SIGKILL, head.agent)
    if campaign.chance.random() < 0.5:
        campaign.for_a_moment()
    else:
        eventually(lambda: not host.workers(), "the end of workers that are cut off", PATIENCE_S)
    host.machine.heal()


# ---------------------------------------------------------------- freezes
@freeze
def freeze_a_machine_for_a_moment(campaign: Campaign) -> None:
    machine = campaign.host().machine
    machine.freeze()
    campaign.for_a_moment()
    machine.thaw()


@freeze
def freeze_a_machine_until_it_is_given_up(campaign: Campaign) -> None:
    host = campaign.host()
    campaign.note_kill(host)
    host.machine.freeze()
    campaign.await_loss(host)
    host.machine.thaw()


@freeze
def freeze_the_head_for_a_moment(campaign: Campaign) -> None:
    machine = campaign.fleet.head.machine
    machine.freeze()
    campaign.for_a_moment()
    machine.thaw()


@freeze
def freeze_the_head_until_leases_are_over(campaign: Campaign) -> None:
    machine = campaign.fleet.head.machine
    machine.freeze()
    hosts = campaign.fleet.hosts
    try:
        eventually(
            lambda: not any(host.workers() for host in hosts), "the end of workers without a head", PATIENCE_S
        )
    finally:
        machine.thaw()


@freeze
def stop_the_controller_for_a_moment(campaign: Campaign) -> None:
    head = campaign.fleet.head
    agent = head.agent
    head.send(signal.SIGSTOP, agent)
    campaign.for_a_moment()
    head.send(signal.SIGCONT, agent)
