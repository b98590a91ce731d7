"""A device is never given twice: hosts, workers and controllers in a hostile world, and single rules."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.executors.leases import (
    CLOCK_ERROR_SHARE,
    FromController,
    GrantedLeases,
    HeldLease,
    HostTerm,
    LeaseAsked,
    LeaseGranted,
    LeaseTimes,
)

HOST, MACHINE = "h", "m"
TICK_S = 0.1
#: Of the network, from and to the host.
UP, DOWN = (True, True), (False, False)


@dataclass
class Worker:
    """Looks at the end of its lease before each step; can be stopped on its own."""

    term: int
    end_s: float  #: as it sees it, by the host's clock
    started_s: float  #: in real time
    is_frozen: bool = False


@dataclass
class Machine:
    """A host process with workers. Its clock shows `rate` times the real time."""

    rate: float
    lease: HeldLease = field(default_factory=lambda: HeldLease(1))
    workers: list[Worker] = field(default_factory=list)
    is_frozen: bool = False
    killing_since_s: float | None = None

    def show_end(self) -> None:
        for worker in self.workers:
            worker.end_s = self.lease.end_s


class HostileLeases:
    """Messages are late, lost, doubled, overtaken; processes freeze and start again; clocks run unevenly."""

    times = LeaseTimes(lease_s=3.0, margin_s=0.5)

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_s = 0.0
        self.machine = Machine(self.some_rate())
        self.controller_rate, self.controller_s = self.some_rate(), 1000.0
        self.is_controller_frozen = False
        self.given_up: dict[int, float] = {}  #: terms whose devices the controller gave away, and when
        self.granted_here: list[int] = []  #: terms in which the present controller granted, in order
        self.ended_here: list[int] = []  #: of which it told that they are over
        self.records: Sequence[HostTerm] = ()
        self.granted = self.new_controller()
        self.to_controller: list[LeaseAsked] = []
        self.to_host: list[FromController] = []
        self.old_questions: list[LeaseAsked] = []
        self.old_answers: list[FromController] = []
        self.is_out_up = self.is_back_up = True

    def new_controller(self) -> GrantedLeases:
        return GrantedLeases(self.times, lambda: self.controller_s, self.write, self.records)

    def write(self, records: Sequence[HostTerm]) -> None:
        self.records = records

    def some_rate(self) -> float:
        return 1 + self.chance.choice([-1, 0, 1, self.chance.uniform(-1, 1)]) * CLOCK_ERROR_SHARE

    @property
    def host_s(self) -> float:
        return 50.0 + self.now_s * self.machine.rate

    # ------------------------------------------------------------ time
    def pass_time(self, num_ticks: int) -> None:
        for _ in range(num_ticks):
            self.now_s += TICK_S
            if not self.is_controller_frozen:
                self.controller_s += TICK_S * self.controller_rate
                self.give_up()
            self.act_on_host()
            self.end_workers()
            self.carry()
            self.no_device_is_given_twice()

    def act_on_host(self) -> None:
        machine = self.machine
        if machine.is_frozen:
            return
        if machine.lease.is_over(self.host_s):
            self.kill_workers()
        elif machine.lease.is_held(self.host_s) and len(machine.workers) < 2:
            machine.workers.append(Worker(machine.lease.term, machine.lease.end_s, self.now_s))
        if (asked := machine.lease.ask(self.host_s)) is not None:
            self.to_controller.append(asked)

    def kill_workers(self) -> None:
        """SIGKILL ends stopped processes too, and takes its time, within the margin."""
        machine = self.machine
        if machine.killing_since_s is None:
            machine.killing_since_s = self.now_s
        if self.now_s - machine.killing_since_s >= self.times.margin_s - 2.5 * TICK_S:
            machine.workers.clear()
            assert machine.lease.is_over(self.host_s)
            machine.lease, machine.killing_since_s = HeldLease(machine.lease.term + 1), None

    def end_workers(self) -> None:
        """A worker whose host process is stopped ends by itself, a stopped one as soon as it goes on."""
        self.machine.workers = [
            worker
            for worker in self.machine.workers
            if worker.is_frozen or not self.machine.is_frozen or self.host_s < worker.end_s
        ]

    # ------------------------------------------------------------ the network
    def change_network(self) -> None:
        """What is under way when a direction fails arrives later, or never, or again."""
        self.is_out_up, self.is_back_up = self.chance.choice([UP, UP, DOWN, (False, True), (True, False)])

    def carry(self) -> None:
        if self.is_out_up and not self.is_controller_frozen:
            while self.to_controller:
                self.reach_controller(0)
        if self.is_back_up and not self.machine.is_frozen:
            while self.to_host:
                self.reach_host(0)

    def reach_controller(self, index: int) -> None:
        asked = self.to_controller.pop(index)
        self.old_questions.append(asked)
        answer = self.granted.answer(HOST, MACHINE, asked)
        if isinstance(answer, LeaseGranted) and answer.term not in self.granted_here:
            self.granted_here.append(answer.term)
        self.to_host.append(answer)

    def reach_host(self, index: int) -> None:
        answer = self.to_host.pop(index)
        self.old_answers.append(answer)
        self.machine.lease.note_answer(answer, self.host_s)
        self.machine.show_end()

    def repeat_question(self) -> None:
        self.to_controller.insert(0, self.chance.choice(self.old_questions[-20:]))
        self.reach_controller(0)

    def repeat_answer(self) -> None:
        self.to_host.insert(0, self.chance.choice(self.old_answers[-20:]))
        self.reach_host(0)

    def let_a_question_through(self) -> None:
        self.reach_controller(self.chance.randrange(len(self.to_controller)))

    def let_an_answer_through(self) -> None:
        self.reach_host(self.chance.randrange(len(self.to_host)))

    def lose_all(self) -> None:
        self.to_controller.clear()
        self.to_host.clear()

    # ------------------------------------------------------------ processes
    def freeze_or_thaw_host(self) -> None:
        self.machine.is_frozen = not self.machine.is_frozen
        self.act_on_host()

    def freeze_or_thaw_worker(self) -> None:
        worker = self.chance.choice(self.machine.workers)
        worker.is_frozen = not worker.is_frozen
        if not worker.is_frozen and self.host_s >= worker.end_s:
            self.machine.workers.remove(worker)

    def restart_host(self) -> None:
        """The kernel ends workers with their host, and the next host waits for the lock that they hold."""
        term = self.machine.lease.term
        self.machine = Machine(self.machine.rate, HeldLease(term + 1))

    def freeze_or_thaw_controller(self) -> None:
        self.is_controller_frozen = not self.is_controller_frozen

    def restart_controller(self) -> None:
        lease_s, start_s = self.chance.choice([1.0, 3.0, 5.0]), self.chance.uniform(0, 1e6)
        self.times = LeaseTimes(lease_s=lease_s, margin_s=self.times.margin_s)
        self.controller_s, self.is_controller_frozen = start_s, False
        self.granted = self.new_controller()
        self.granted_here, self.ended_here = [], []

    def refuse(self) -> None:
        self.granted.refuse(HOST)

    # ------------------------------------------------------------ the laws
    def give_up(self) -> None:
        for _, term in self.granted.take_ended():
            self.ended_here.append(term)
            assert term not in self.given_up, "each term ends once"
            self.given_up[term] = self.now_s
        self.each_term_ends_once()

    def each_term_ends_once(self) -> None:
        """As far as this controller granted in it; the last one when the host is free."""
        is_free = self.granted.is_free(HOST)
        over = self.granted_here if is_free else self.granted_here[:-1]
        assert set(over) <= set(self.ended_here)
        assert len(self.ended_here) == len(set(self.ended_here))

    def no_device_is_given_twice(self) -> None:
        running = [worker for worker in self.machine.workers if not worker.is_frozen]
        for worker in running:
            assert self.given_up.get(worker.term, -math.inf) < worker.started_s
        assert not running or not self.granted.is_free(HOST)

    # ------------------------------------------------------------ chance
    def live(self) -> None:
        """A while, of which the most is time that passes; then all is healed."""
        for _ in range(60):
            self.pass_time(self.chance.choice([1, 3, 10, 30, 60]))
            self.chance.choice(self.possible())()
            self.no_device_is_given_twice()
        self.heal()

    def possible(self) -> list[Callable[[], None]]:
        machine = self.machine
        events = [self.change_network] * 6 + [self.freeze_or_thaw_host, self.freeze_or_thaw_controller] * 2
        events += [self.lose_all, self.restart_host, self.restart_controller, self.refuse]
        events += [self.freeze_or_thaw_worker] * (2 * bool(machine.workers))
        if not self.is_controller_frozen:
            events += [self.repeat_question] * bool(self.old_questions)
            events += [self.let_a_question_through] * bool(self.to_controller)
        if not machine.is_frozen:
            events += [self.repeat_answer] * bool(self.old_answers)
            events += [self.let_an_answer_through] * bool(self.to_host)
        return events

    def heal(self) -> None:
        """The host has a lease again, after at most one term that had to end first."""
        self.machine.is_frozen = self.is_controller_frozen = False
        self.machine.workers = [worker for worker in self.machine.workers if not worker.is_frozen]
        self.is_out_up = self.is_back_up = True
        self.pass_time(300)
        assert self.machine.lease.is_held(self.host_s)
        assert self.machine.workers and not self.granted.is_free(HOST)


@given(st.integers(0, 2**32))
def test_no_device_is_given_twice_and_all_resumes(seed: int) -> None:
    HostileLeases(seed).live()


RATES = st.floats(1 - CLOCK_ERROR_SHARE, 1 + CLOCK_ERROR_SHARE)
TIMES = st.builds(LeaseTimes, lease_s=st.floats(0.1, 3600), margin_s=st.floats(0.1, 600))


@given(TIMES, RATES, RATES)
def test_the_wait_outlasts_the_lease_and_the_margin(
    times: LeaseTimes, host: float, controller: float
) -> None:
    gone_s = times.lease_s / host + times.margin_s
    assert times.wait_s / controller >= gone_s * (1 - 1e-9)
    assert times.wait_s <= (times.lease_s + times.margin_s) * (1 + 4 * CLOCK_ERROR_SHARE), "and not by much"


@pytest.mark.parametrize("wrong_s", [0.0, -1.0, math.nan, math.inf])
def test_times_that_are_none_are_refused(wrong_s: float) -> None:
    with pytest.raises(ValueError, match=r"lease_s=.* must be above 0 s"):
        LeaseTimes(lease_s=wrong_s)
    with pytest.raises(ValueError, match=r"margin_s=.* must be above 0 s"):
        LeaseTimes(margin_s=wrong_s)
