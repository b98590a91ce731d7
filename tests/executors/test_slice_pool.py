"""How many slices are asked for and given back, and what the platform is told of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import pick
from tests.executors.fake_slurm import FakeSlurm

from swell.executors.slurm.host_names import host_name
from swell.executors.slurm.pool_orders import (
    CancelSlice,
    ClearNode,
    GiveUpHost,
    Order,
    ReleaseHost,
    SubmitSlice,
    TellCause,
    TellEnd,
    WarnNode,
)
from swell.executors.slurm.slice_pool import (
    BORROW_WAIT_S,
    FIRST_PAUSE_S,
    GONE_S,
    LONGEST_PAUSE_S,
    MOST_AT_ONCE,
    PoolLimits,
    SlicePool,
)
from swell.executors.slurm.slice_state import DRAINED, IDLE, LEAVE_S, OVER
from swell.executors.slurm.slurm_port import SliceJob, SlurmNode, SlurmRead

IDLE_S = 60.0
PERIOD_S = 2.0
CALENDAR_S = 1.8e9


class Cluster:
    """A pool and a Slurm in memory; orders are carried out at once, as a quick Slurm would."""

    def __init__(self, num_nodes: int = 4, limit_s: float | None = 36_000.0, **limits: Any) -> None:
        self.slurm = FakeSlurm(nodes=[f"n{number}" for number in range(1, num_nodes + 1)], limit_s=limit_s)
        self.used: set[str] = set()
        self.hosts: set[str] = set()
        self.now_s = 1000.0
        self.orders: list[Order] = []
        given: dict[str, Any] = {
            "max_slices": 4,
            "num_devices": 2,
            "idle_s": IDLE_S,
            "partition": "scav",
        } | limits
        self.limits = PoolLimits(**given)
        self.pool = self.new_pool()

    def new_pool(self) -> SlicePool:
        return SlicePool(self.limits, lambda host: host in self.used, lambda: CALENDAR_S + self.now_s)

    def look(self, after_s: float = PERIOD_S, *, starts: bool = True, joins: bool = True) -> Sequence[Order]:
        """Time passes, Slurm starts jobs, hosts join, and the pool looks. Without ends, which have tests."""
        self.now_s += after_s
        for job in list(self.slurm.jobs.values()):
            if job.left_s is not None and job.state == "RUNNING":
                self.slurm.change(job.id, left_s=max(0.0, job.left_s - after_s))
        if starts:
            self.slurm.start(CALENDAR_S + self.now_s)
        if joins:
            self.join_all()
        orders = self.do(self.pool.read(self.slurm.seen(), self.now_s))
        return [order for order in orders if not isinstance(order, TellEnd)]

    def join_all(self) -> None:
        running = {
            host_name(job.node, job.id): job for job in self.slurm.jobs.values() if job.state == "RUNNING"
        }
        for host in running.keys() - self.hosts:
            self.hosts.add(host)
            self.pool.host_joined(host)

    def do(self, orders: Sequence[Order]) -> Sequence[Order]:
        self.orders += orders
        for order in orders:
            match order:
                case SubmitSlice(node=node):
                    self.pool.submitted(self.slurm.add(node=node), self.now_s, node)
                case CancelSlice(job=job):
                    self.slurm.end(job)
                case ReleaseHost(host=host):
                    assert host not in self.used, "a host was given back on which a job runs"
                    self.lose(host)
                    self.slurm.end(int(host.rpartition("-")[2]), "COMPLETED")
                case GiveUpHost(host=host):
                    self.lose(host)
                case _:
                    pass
        return orders

    def lose(self, host: str) -> None:
        self.hosts.discard(host)
        self.used.discard(host)
        self.pool.host_lost(host)

    def want(self, num: int) -> Sequence[Order]:
        self.pool.want(num)
        return self.do(self.pool.decide(self.now_s))

    def of(self, kind: type[Order]) -> list[Any]:
        return [order for order in self.orders if isinstance(order, kind)]

    @property
    def num_open(self) -> int:
        return len(self.slurm.in_state("PENDING")) + len(self.slurm.in_state("RUNNING"))


def test_slices_are_asked_for_while_jobs_could_use_them_and_no_more() -> None:
    c = Cluster()
    assert c.look() == [] and c.want(0) == []
    assert c.want(3) == [SubmitSlice(), SubmitSlice()], "three devices are two slices of two"
    assert c.want(3) == []
    c.look()
    assert c.hosts == {"n1-1", "n2-2"}
    assert len(c.want(10**6)) == 2, "--max-nodes is the most"
    assert c.look() == [] and c.num_open == 4


def test_nothing_is_asked_before_it_is_known_what_there_is() -> None:
    """An agent that comes back finds the slices of the one before."""
    c = Cluster()
    c.look()
    c.want(4)
    c.look()
    c.pool = c.new_pool()
    assert c.want(4) == []
    for host in c.hosts:
        c.pool.host_joined(host)
    assert c.look() == [] and c.num_open == 2


def test_an_agent_that_comes_back_keeps_slices_until_a_daemon_tells_what_is_wanted() -> None:
    c = Cluster()
    c.look()
    c.want(4)
    c.look()
    c.pool = c.new_pool()
    for host in c.hosts:
        c.pool.host_joined(host)
    c.look(10 * IDLE_S)
    c.look(10 * IDLE_S)
    assert c.num_open == 2
    c.want(0)
    for _ in range(3):
        c.look(IDLE_S)
    assert c.num_open == 0


def test_what_waits_in_the_queue_goes_first_and_hosts_only_when_they_have_been_idle() -> None:
    c = Cluster(num_nodes=2)
    c.look()
    c.want(8)
    c.look()
    assert len(c.slurm.in_state("PENDING")) == 2
    c.used = {"n1-1"}
    assert c.want(2) == [CancelSlice(job=4), CancelSlice(job=3)]


def test_an_idle_host_is_left_before_it_goes_and_stays_if_work_has_come_meanwhile() -> None:
    c = Cluster()
    c.look()
    c.want(2)
    c.look()
    c.want(0)
    assert c.look(IDLE_S / 2) == []
    assert c.look(IDLE_S) == [WarnNode(host="n1-1", within_s=None, why=IDLE)]
    assert c.want(2) == [ClearNode(host="n1-1", why=IDLE)]
    c.want(0)
    assert c.look() == [], "it is idle from now on"
    assert c.look(IDLE_S) == [WarnNode(host="n1-1", within_s=None, why=IDLE)]
    c.used.add("n1-1")  # a worker was on its way
    assert c.look() == [ClearNode(host="n1-1", why=IDLE)]
    c.used.clear()
    assert c.look() == []
    c.look(IDLE_S)
    assert c.look() == [ReleaseHost(host="n1-1")]
    assert c.num_open == 0


def test_a_host_that_does_not_go_is_ended_by_slurm() -> None:
    c = Cluster()
    c.look()
    c.want(2)
    c.look()
    c.want(0)
    c.look(1.0)
    c.look(IDLE_S)
    c.now_s += PERIOD_S
    assert c.pool.read(c.slurm.seen(), c.now_s) == [ReleaseHost(host="n1-1")]  # which it does not hear
    assert c.look(GONE_S) == [CancelSlice(job=1)]


def test_the_least_number_is_kept_without_work() -> None:
    c = Cluster(min_slices=2)
    assert c.look() == [SubmitSlice()] * 2
    c.want(0)
    for _ in range(4):
        c.look(IDLE_S)
    assert c.num_open == 2


def test_a_job_that_slurm_has_ended_gives_its_host_up_and_another_is_asked_for() -> None:
    c = Cluster()
    c.look()
    c.want(2)
    c.look()
    c.slurm.end(1, "NODE_FAIL")
    why = "Slurm has ended its job 1 (NODE_FAIL)"
    assert c.look(joins=False) == [GiveUpHost(host="n1-1", why=why), SubmitSlice()]


def test_a_host_with_a_line_is_given_up_again_until_it_is_lost() -> None:
    c = Cluster()
    c.look()
    c.want(2)
    c.look()
    c.slurm.end(1)
    for _ in range(3):
        c.now_s += PERIOD_S
        given_up = [o for o in c.pool.read(c.slurm.seen(), c.now_s) if isinstance(o, GiveUpHost)]
        assert [order.host for order in given_up] == ["n1-1"]
    c.pool.host_lost("n1-1")
    assert not any(isinstance(o, GiveUpHost) for o in c.pool.read(c.slurm.seen(), c.now_s))


def test_a_requeue_is_a_new_host() -> None:
    c = Cluster(num_nodes=1)
    c.look()
    c.want(2)
    c.look()
    c.slurm.change(1, state="PENDING", node="", left_s=None)
    given_up = GiveUpHost(host="n1-1", why="Slurm has requeued its job 1")
    assert c.look(starts=False) == [given_up]
    assert c.num_open == 1, "its place in the queue is kept"
    c.slurm.start()
    c.pool.host_joined(host_name("n1", 1, 1))
    c.hosts = {"n1-1r1", "n1-1"}
    assert c.look(joins=False) == []


def test_a_requeued_slice_that_slurm_delays_is_replaced() -> None:
    c = Cluster()
    c.look()
    c.want(2)
    c.look()
    c.slurm.change(1, state="PENDING", node="", left_s=None, reason="BeginTime")
    given_up = GiveUpHost(host="n1-1", why="Slurm has requeued its job 1")
    assert c.look(starts=False) == [given_up, CancelSlice(job=1), SubmitSlice()]


def with_a_draining_node(*used: str) -> Cluster:
    """Its slice is that of host `n1-1`; `used`: hosts that have workers."""
    c = Cluster(num_nodes=2)
    c.look()
    c.want(2)
    c.look()
    c.used.update(used)
    c.slurm.states["n1"] = "draining"
    return c


def test_a_drained_node_is_left_and_comes_back_when_it_is_resumed() -> None:
    c = with_a_draining_node("n1-1")
    assert c.look() == [WarnNode(host="n1-1", within_s=None, why=DRAINED), SubmitSlice()]
    assert c.look() == []
    c.slurm.states["n1"] = "mixed"
    assert c.look() == [ClearNode(host="n1-1", why=DRAINED)]


def test_a_slice_on_a_drained_node_goes_when_nothing_uses_it() -> None:
    """Slurm waits for the jobs of a draining node. The head hears a look earlier."""
    c = with_a_draining_node()
    assert WarnNode(host="n1-1", within_s=None, why=DRAINED) in c.look()
    assert c.look() == [ReleaseHost(host="n1-1")]
    assert c.look() == []


def test_a_node_that_is_resumed_while_its_host_leaves_is_not_offered_again() -> None:
    c = with_a_draining_node()
    c.look()
    told = c.pool.read(c.slurm.seen(), c.now_s + PERIOD_S)
    assert told == [ReleaseHost(host="n1-1")]
    c.slurm.states["n1"] = "mixed"  # its host has yet to go
    assert not [o for o in c.pool.read(c.slurm.seen(), c.now_s + 2 * PERIOD_S) if isinstance(o, ClearNode)]


# ---------------------------------------------------------------- the end of an allocation
def test_an_allocation_is_renewed_before_it_ends_and_left_when_its_successor_is_there() -> None:
    c = Cluster(limit_s=3600.0)
    c.look()
    c.want(2)
    c.look()
    c.used.add("n1-1")
    assert c.look(3600 - 400) == []
    assert c.look(50) == [SubmitSlice()], "a tenth of the limit before the end"
    (warned,) = c.look()
    assert isinstance(warned, WarnNode) and (warned.host, warned.why) == ("n1-1", OVER)
    assert warned.within_s == pytest.approx(3600 - (3600 - 400) - 50 - PERIOD_S, abs=5)
    assert c.look() == [], "as long as work is there"
    c.used.clear()
    assert c.look() == [ReleaseHost(host="n1-1")]


def test_an_empty_one_goes_as_soon_as_its_successor_is_there() -> None:
    c = Cluster(limit_s=3600.0)
    c.look()
    c.want(2)
    c.look()
    c.look(3600 - 300)
    c.look()
    assert c.look() == [ReleaseHost(host="n1-1")]
    assert c.hosts == {"n2-2"}


def test_the_end_of_an_allocation_is_told_once_it_has_a_host_and_again_where_it_changes() -> None:
    """So long before that gangs can leave: promises end where the node takes no more work."""
    c = Cluster(limit_s=3600.0)
    c.look()
    c.want(2)
    began_s = c.now_s + PERIOD_S
    c.look(joins=False)
    assert c.of(TellEnd) == []
    c.look()
    c.look()
    (told,) = c.of(TellEnd)
    assert told == TellEnd(host="n1-1", within_s=began_s + 3600.0 - LEAVE_S - (c.now_s - PERIOD_S))
    c.slurm.change(1, limit_s=7200.0)
    c.look()
    c.look()
    assert [order.within_s - told.within_s for order in c.of(TellEnd)[1:]] == [3600.0 - 2 * PERIOD_S]
    c.lose("n1-1")
    c.hosts.clear()
    c.look()
    assert len(c.of(TellEnd)) == 3, "the head has forgotten a host that was lost"


def test_an_allocation_without_a_limit_has_no_end() -> None:
    c = Cluster(limit_s=None)
    c.look()
    c.want(2)
    c.look()
    assert c.hosts and c.of(TellEnd) == []


def test_without_a_successor_it_is_left_in_the_last_minute() -> None:
    c = Cluster(num_nodes=1, limit_s=3600.0)
    c.look()
    c.want(2)
    c.look()
    c.used.add("n1-1")
    c.look(3600 - 300)
    assert c.look(200) == []
    (warned,) = c.look(60)
    assert isinstance(warned, WarnNode) and warned.why == OVER
    assert warned.within_s is not None and 0 < warned.within_s < 60


def test_a_clock_of_slurm_that_is_off_moves_no_end_of_an_allocation_that_was_seen_to_begin() -> None:
    c = Cluster(limit_s=3600.0)
    c.look()
    c.want(2)
    c.look()
    c.slurm.change(1, left_s=5.0)  # it is said to end at once
    assert c.look() == []
    c.slurm.change(1, left_s=9e9)
    c.used.add("n1-1")
    assert c.look(3600 - 300) == [SubmitSlice()]


@pytest.mark.parametrize("ahead_s", [-600.0, 0.0, 600.0])
def test_the_end_of_one_that_began_earlier_is_corrected_by_what_the_clocks_differ(ahead_s: float) -> None:
    """`squeue` subtracts a start by Slurm's clock from the time of this machine's."""
    c = Cluster(limit_s=3600.0)
    c.look()
    c.want(2)
    began_s = CALENDAR_S + c.now_s + PERIOD_S + ahead_s
    c.slurm.change(1, state="RUNNING", node="n1", started_s=began_s, left_s=3600.0)
    c.look(starts=False)
    job = c.slurm.add()  # of an agent before: 1,000 s are left
    c.slurm.change(job, state="RUNNING", node="n2", left_s=1000.0 + ahead_s)
    c.look(starts=False)
    c.used = {f"n2-{job}"}
    read_s, ends_s = c.now_s, list[float]()
    while not ends_s:
        warned = [order for order in c.look() if isinstance(order, WarnNode) and order.host in c.used]
        ends_s += [c.now_s + order.within_s for order in warned if order.within_s is not None]
    assert ends_s == [pytest.approx(read_s + 1000, abs=2 * PERIOD_S)]  # the other began between two looks


SILENCE_S = 1500.0


@pytest.mark.parametrize(
    ("ahead_s", "is_clock_known"), [(0.0, False), (0.0, True), (-600.0, True), (600.0, True)]
)
def test_a_slice_that_begins_while_slurm_is_silent_ends_no_later_than_its_limit(
    ahead_s: float, is_clock_known: bool
) -> None:
    """The head promises nothing on time that a node does not have, also once Slurm answers again."""
    c = Cluster(limit_s=3600.0)
    c.look()
    if is_clock_known:
        c.want(2)
        c.slurm.start(CALENDAR_S + c.now_s + PERIOD_S + ahead_s)
        c.look(starts=False)
    c.want(4)
    began_s, job = c.now_s + 20.0, c.slurm.num_submitted
    c.slurm.start(CALENDAR_S + began_s + ahead_s)
    c.look(SILENCE_S, starts=False)
    host = host_name(c.slurm.jobs[job].node, job)
    (told,) = [order for order in c.of(TellEnd) if order.host == host]
    counted_from_s = c.now_s + told.within_s + LEAVE_S - 3600.0
    assert counted_from_s == pytest.approx(began_s, abs=2 * PERIOD_S)


def test_the_end_of_a_slice_is_told_while_slurm_is_silent() -> None:
    c = Cluster(limit_s=3600.0)
    c.look()
    c.want(2)
    c.look(starts=False)
    asked_s = c.now_s
    c.slurm.start(CALENDAR_S + asked_s + 50.0)
    c.now_s += 100.0
    c.join_all()
    (told,) = c.pool.bear_silence(c.now_s)
    assert told == TellEnd(host="n1-1", within_s=asked_s + 3600.0 - LEAVE_S - c.now_s)
    assert c.pool.bear_silence(c.now_s) == []
    c.look(starts=False)
    told = c.of(TellEnd)[-1]
    assert c.now_s + told.within_s == pytest.approx(asked_s + 50.0 + 3600.0 - LEAVE_S, abs=PERIOD_S)


def test_a_slice_that_is_requeued_and_begins_again_while_slurm_is_silent_ends_by_its_new_start() -> None:
    c = Cluster(num_nodes=1, limit_s=3600.0)
    c.look()
    c.want(2)
    c.look()
    c.slurm.change(1, started_s=CALENDAR_S + c.now_s + 500.0)
    c.look(1000.0, starts=False)
    last = c.of(TellEnd)[-1]
    assert last.within_s == pytest.approx(3600.0 - LEAVE_S - 500.0, abs=2 * PERIOD_S)


def test_a_limit_that_an_administrator_raises_moves_the_end() -> None:
    c = Cluster(limit_s=3600.0)
    c.look()
    c.want(2)
    c.look()
    c.slurm.change(1, limit_s=7200.0)
    assert c.look(3600 - 100) == []


# ---------------------------------------------------------------- what goes wrong
def test_a_refusal_is_told_once_and_tried_again_later_each_time() -> None:
    c = Cluster()
    c.look()
    c.pool.want(2)
    num_tries, told = 0, list[Order]()
    for _ in range(200):
        c.now_s += PERIOD_S
        for order in c.pool.read(c.slurm.seen(), c.now_s):
            assert order == SubmitSlice()
            num_tries += 1
            told += c.pool.refused("sbatch: no; do this", c.now_s)
    assert told == [TellCause(about="slurm-scav", why="sbatch: no; do this")]
    assert 400 / LONGEST_PAUSE_S < num_tries < 12
    assert FIRST_PAUSE_S > PERIOD_S


def test_a_host_that_ends_at_once_is_told_with_its_job_and_not_started_without_end() -> None:
    c = Cluster()
    c.look()
    c.want(2)
    c.slurm.start()
    c.look(joins=False)
    c.slurm.end(1, "FAILED", "NonZeroExitCode")
    told = c.look(joins=False)
    why = "its host ended at once (FAILED, NonZeroExitCode)"
    assert told == [TellCause(about="n1-1", why=why, job=1)]
    num = 0
    for _ in range(100):
        orders = c.look(joins=False)
        num += sum(isinstance(order, SubmitSlice) for order in orders)
        for job in c.slurm.in_state("RUNNING"):
            c.slurm.end(job, "FAILED", "NonZeroExitCode")
    assert num < 10


def test_why_slices_wait_is_told_where_waiting_does_not_help() -> None:
    c = Cluster(num_nodes=0)
    c.look()
    c.want(4)
    assert c.look() == [], "devices will be free"
    for job in (1, 2):
        c.slurm.change(job, reason="QOSMaxJobsPerUserLimit")
    (told,) = c.look()
    assert isinstance(told, TellCause) and told.about == "slurm-scav"
    assert told.why == (
        "2 slices waiting in Slurm's queue (QOSMaxJobsPerUserLimit): the QOS allows you no more now: lower "
        "--max-nodes, or choose another --qos"
    )
    assert c.look() == []


def test_a_job_that_slurm_does_not_show_yet_is_not_taken_for_ended() -> None:
    c = Cluster()
    c.look()
    c.want(2)
    hidden = c.slurm.jobs.pop(1)
    assert c.look() == []
    c.slurm.jobs[1] = hidden
    c.look()
    assert c.num_open == 1 and c.slurm.num_submitted == 1


# ---------------------------------------------------------------- borrowed nodes
def test_borrowing_takes_idle_nodes_only_and_names_them() -> None:
    c = Cluster(num_nodes=3, is_borrowing=True)
    c.slurm.states["n2"] = "allocated"
    c.look()
    assert c.want(8) == [SubmitSlice(node="n1"), SubmitSlice(node="n3")]
    assert c.look() == [], "others have the rest"
    del c.slurm.states["n2"]
    assert c.look() == [SubmitSlice(node="n2")]


def test_a_borrowed_node_that_others_were_given_first_is_not_waited_for() -> None:
    c = Cluster(num_nodes=1, is_borrowing=True)
    c.look()
    c.want(2)
    c.slurm.states["n1"] = "allocated"
    assert c.look(BORROW_WAIT_S / 2) == []
    assert c.look(BORROW_WAIT_S) == [CancelSlice(job=1)]
    assert c.look() == []


# ---------------------------------------------------------------- laws
ACTIONS = st.one_of(
    st.tuples(st.just("want"), st.integers(0, 20)),
    st.tuples(st.just("look"), st.sampled_from([1.0, 2.0, 30.0, 70.0])),
    st.tuples(st.just("use"), st.integers(0, 3)),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.just("requeue"), st.integers(0, 3)),
    st.tuples(st.just("take"), st.integers(1, 4)),
)


@given(st.lists(ACTIONS, max_size=40), pick(False, True), pick(0, 1))
def test_whatever_happens_no_more_than_the_most_are_there_and_all_go_when_nothing_is_wanted(
    actions: list[tuple[str, Any]], is_borrowing: bool, least: int
) -> None:
    c = Cluster(is_borrowing=is_borrowing, min_slices=least)
    for action, value in actions:
        _act(c, action, value)
        assert c.num_open <= c.limits.max_slices
        assert len(c.of(SubmitSlice)) <= MOST_AT_ONCE * len(actions)
    c.slurm.states.clear()
    c.used.clear()
    c.want(0)
    for _ in range(8):
        c.look(IDLE_S)
    assert c.num_open == least


def _act(c: Cluster, action: str, value: Any) -> None:
    running, hosts = c.slurm.in_state("RUNNING"), sorted(c.hosts)
    match action:
        case "want":
            c.want(value)
        case "look":
            c.look(value)
        case "use" if value < len(hosts):
            c.used ^= {hosts[value]}
        case "end" if value < len(running):
            c.slurm.end(running[value])
        case "requeue" if value < len(running):
            c.slurm.change(running[value], state="PENDING", node="", left_s=None)
        case "take":
            node = f"n{value}"
            if c.slurm.state(node) == "idle":
                c.slurm.states[node] = "allocated"
            else:
                c.slurm.states.pop(node, None)


# ---------------------------------------------------------------- many nodes
def calls_of_a_look(num_nodes: int) -> int:
    """Calls of Python functions in one look at so many slices of which nothing is new."""
    pool = SlicePool(PoolLimits(max_slices=num_nodes), lambda host: True, lambda: CALENDAR_S)
    pool.want(num_nodes)
    numbers = range(1, num_nodes + 1)
    read = SlurmRead(
        jobs=tuple(SliceJob(id=n, state="RUNNING", node=f"n{n}", left_s=9e3, limit_s=9e3) for n in numbers),
        nodes=tuple(SlurmNode(name=f"n{n}", state="allocated") for n in numbers),
    )
    for number in numbers:
        pool.host_joined(host_name(f"n{number}", number))
    pool.read(read, 0.0)
    calls = Counter[str]()
    sys.setprofile(lambda frame, event, arg: calls.update((event,)))
    try:
        assert pool.read(read, PERIOD_S) == []
    finally:
        sys.setprofile(None)
    return calls["call"] + calls["c_call"]


def test_a_look_at_ten_times_as_many_slices_takes_no_more_than_ten_times_the_calls() -> None:
    few, many = calls_of_a_look(100), calls_of_a_look(1000)
    assert many <= 10.5 * few
