"""How many slices are asked for and given back, and what the platform is told of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import pick
from tests.executors.fake_slurm import FakeSlurm

from swell.executors.node.options import NodeOptions
from swell.executors.slices.order import SliceOrder, host_name
from swell.executors.slices.pool import (
    FIRST_PAUSE_S,
    IDLE,
    JOIN_S,
    LEAVE_S,
    MOST_AT_ONCE,
    OVER,
    SlicePool,
)
from swell.executors.slices.port import ClusterRead
from swell.executors.slurm.engine import SlurmEngine
from swell.model.event import NodeCleared, NodeEndKnown, NodeLost, NodeWarned

IDLE_S = 60.0
PERIOD_S = 2.0
ORDER = SliceOrder(host=NodeOptions(), token="token")

#: What the pool has done, in short.
Done = tuple[Any, ...]
SUBMIT = ("submit", "")
ENDED = "Slurm has ended slice {} ({})"


class Cluster:
    """A pool and a Slurm in memory; what the pool has done is done at once, as by a quick Slurm."""

    def __init__(self, num_nodes: int = 4, limit_s: float | None = 36_000.0, **options: Any) -> None:
        self.slurm = FakeSlurm(nodes=[f"n{number}" for number in range(1, num_nodes + 1)], limit_s=limit_s)
        self.used: set[str] = set()
        self.hosts: set[str] = set()
        self.now_s = 1000.0
        self.done: list[Done] = []
        self.is_deaf = False  #: hosts do not hear that they are to leave
        usual: dict[str, Any] = {
            "max_nodes": 4,
            "slice_devices": "cpu:2",
            "idle_s": IDLE_S,
            "partition": "scav",
        }
        self.engine = SlurmEngine(**(usual | options))
        self.pool = self.new_pool()

    def new_pool(self) -> SlicePool:
        return SlicePool(self.engine, self, self)

    # ------------------------------------------------------------ ClusterPort
    async def read(self) -> ClusterRead:
        return self.slurm.seen()

    async def submit(self, order: SliceOrder, node: str = "") -> int:
        self.done.append(("submit", node))
        return await self.slurm.submit(order, node)

    async def cancel(self, jobs: Collection[int]) -> None:
        self.done += [("cancel", job) for job in jobs]
        await self.slurm.cancel(jobs)

    async def close(self) -> None: ...

    # ------------------------------------------------------------ SliceHosts
    def is_used(self, host: str) -> bool:
        return host in self.used

    def release(self, host: str) -> None:
        assert host not in self.used, "a host was given back on which a job runs"
        self.done.append(("release", host))
        if not self.is_deaf:
            self.hosts.discard(host)
            self.slurm.end(int(host.rpartition("-")[2]), "COMPLETED")

    def give_up(self, host: str, why: str) -> None:
        self.done.append(("give up", host, why))
        if not self.is_deaf:
            self.lose(host)

    def report(self, event: NodeWarned | NodeCleared | NodeEndKnown | NodeLost) -> None:
        match event:
            case NodeWarned(name=name, until_s=until_s, why=why):
                self.done.append(("warn", name, why, None if until_s is None else until_s - self.now_s))
            case NodeCleared(name=name, why=why):
                self.done.append(("clear", name, why))
            case NodeEndKnown(name=name, until_s=until_s):
                self.done.append(("end", name, until_s))
            case NodeLost(name=name, cause=cause):
                self.done.append(("tell", name, cause))

    # ------------------------------------------------------------ what happens
    def look(self, after_s: float = PERIOD_S, *, starts: bool = True, joins: bool = True) -> Sequence[Done]:
        """Time passes, Slurm starts jobs, hosts join, and the pool looks. Without ends, which have tests."""
        self.now_s += after_s
        if starts:
            self.slurm.start(self.now_s)
        if joins:
            self.join_all()
        return self.take()

    def take(self) -> Sequence[Done]:
        """The pool hears what the cluster says, and has things done, which takes no time."""
        before = len(self.done)
        self.slurm.now_s = self.now_s
        with suppress(StopIteration):
            self.pool.take_read(self.slurm.seen(), ORDER, self.hosts, self.now_s).send(None)
        return [one for one in self.done[before:] if one[0] != "end"]

    def join_all(self) -> None:
        running = (self.slurm.jobs[job] for job in self.slurm.in_state("RUNNING"))
        self.hosts |= {host_name(job.node, job.id) for job in running}

    def lose(self, host: str) -> None:
        self.hosts.discard(host)
        self.used.discard(host)

    def want(self, num: int) -> Sequence[Done]:
        self.pool.num_wanted = num
        return self.take()

    def of(self, kind: str) -> list[Done]:
        return [one for one in self.done if one[0] == kind]

    @property
    def num_open(self) -> int:
        return len(self.slurm.in_state("PENDING")) + len(self.slurm.in_state("RUNNING"))


def test_an_idle_host_is_left_before_it_goes_and_stays_if_work_has_come_meanwhile() -> None:
    c = Cluster()
    c.look()
    c.want(2)
    c.look()
    c.want(0)
    assert c.look(IDLE_S / 2) == []
    assert c.look(IDLE_S) == [("warn", "n1-1", IDLE, None)]
    assert c.want(2) == [("clear", "n1-1", IDLE)]
    c.want(0)
    assert c.look() == [], "it is idle from now on"
    assert c.look(IDLE_S) == [("warn", "n1-1", IDLE, None)]
    c.used.add("n1-1")  # a worker was on its way
    assert c.look() == [("clear", "n1-1", IDLE)]
    c.used.clear()
    assert c.look() == []
    c.look(IDLE_S)
    assert c.look() == [("release", "n1-1")]
    assert c.num_open == 0


def test_a_job_that_slurm_has_ended_gives_its_host_up_and_another_is_asked_for() -> None:
    c = Cluster()
    c.look()
    c.want(2)
    c.look()
    c.slurm.end(1, "NODE_FAIL")
    assert c.look(joins=False) == [("give up", "n1-1", ENDED.format(1, "NODE_FAIL")), SUBMIT]


def test_a_slice_whose_host_does_not_join_is_cancelled_and_another_one_has_to_wait() -> None:
    """A firewall keeps it away from the head: it runs nothing until the end of its time."""
    c = Cluster()
    c.look()
    c.want(2)
    c.look(joins=False)
    assert c.look(JOIN_S / 2, joins=False) == []
    told, cancelled = c.look(JOIN_S / 2, joins=False)
    assert told[:2] == ("tell", "n1-1") and "did not join within 2 min" in told[2]
    assert cancelled == ("cancel", 1)
    assert c.look(joins=False) == []
    assert SUBMIT in c.look(FIRST_PAUSE_S, joins=False)


# ---------------------------------------------------------------- the end of an allocation
def test_an_allocation_is_left_and_replaced_in_its_last_minute() -> None:
    c = Cluster(limit_s=3600.0)
    c.look()
    c.want(2)
    c.look()
    c.used.add("n1-1")
    assert c.look(3600 - 70) == []
    (warned, asked) = c.look(10)
    assert warned == ("warn", "n1-1", OVER, 60.0) and asked == SUBMIT
    assert c.look() == [], "as long as work is there"
    c.used.clear()
    assert c.look() == [("release", "n1-1")]
    assert c.hosts == {"n2-2"}


def test_the_end_of_an_allocation_is_told_once_it_has_a_host_and_again_where_it_changes() -> None:
    """So long before that gangs can leave: promises end where the node takes no more work."""
    c = Cluster(limit_s=3600.0)
    c.look()
    c.want(2)
    began_s = c.now_s + PERIOD_S
    c.look(joins=False)
    assert c.of("end") == []
    c.look()
    c.look()
    assert c.of("end") == [("end", "n1-1", began_s + 3600.0 - LEAVE_S)]
    c.slurm.change(1, limit_s=7200.0)
    c.slurm.ends[1] = began_s + 7200.0
    c.look()
    c.look()
    assert c.of("end")[1:] == [("end", "n1-1", began_s + 7200.0 - LEAVE_S)]
    c.lose("n1-1")
    c.look(joins=False)
    c.look()
    assert len(c.of("end")) == 3, "the head has forgotten a host that was lost"


def test_a_slice_that_begins_while_slurm_is_silent_ends_no_later_than_its_limit() -> None:
    """The head promises nothing on time that a node does not have, also once Slurm answers again."""
    c = Cluster(limit_s=3600.0)
    c.look()
    c.want(2)
    c.look(starts=False)
    asked_s = c.now_s
    c.slurm.start(asked_s + 50.0)
    c.now_s += 100.0
    c.join_all()
    for _ in range(2):
        c.pool.note_hosts(c.hosts, c.now_s)
    assert c.of("end") == [("end", "n1-1", asked_s + 3600.0 - LEAVE_S)]
    c.look(starts=False)
    assert c.of("end")[-1][2] == pytest.approx(asked_s + 50.0 + 3600.0 - LEAVE_S, abs=PERIOD_S)


# ---------------------------------------------------------------- what goes wrong
def test_a_host_that_ends_at_once_is_told_with_its_words_and_not_started_without_end() -> None:
    c = Cluster()
    c.look()
    c.want(2)
    c.slurm.start()
    c.look(joins=False)
    c.slurm.end(1, "FAILED", "NonZeroExitCode")
    why = "its host ended at once (FAILED, NonZeroExitCode)"
    assert c.look(joins=False) == [("tell", "n1-1", why)]
    num = len(c.of("submit"))
    for _ in range(100):
        c.look(joins=False)
        for job in c.slurm.in_state("RUNNING"):
            c.slurm.end(job, "FAILED", "NonZeroExitCode")
    assert len(c.of("submit")) - num < 10


def test_why_slices_wait_is_told_in_slurms_word_where_it_is_not_their_turn_alone() -> None:
    c = Cluster(num_nodes=0)
    c.look()
    c.want(4)
    assert c.look() == [], "devices will be free"
    for job in (1, 2):
        c.slurm.change(job, reason="QOSMaxJobsPerUserLimit")
    why = "2 slices waiting in Slurm's queue (QOSMaxJobsPerUserLimit)"
    assert c.look() == [("tell", "slurm-slices", why)]
    assert c.look() == []


# ---------------------------------------------------------------- laws
ACTIONS = st.one_of(
    st.tuples(st.just("want"), st.integers(0, 20)),
    st.tuples(st.just("look"), st.sampled_from([1.0, 2.0, 30.0, 70.0])),
    st.tuples(st.just("use"), st.integers(0, 3)),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.just("take"), st.integers(1, 4)),
)


@given(st.lists(ACTIONS, max_size=40), pick(False, True), pick(0, 1))
def test_whatever_happens_no_more_than_the_most_are_there_and_all_go_when_nothing_is_wanted(
    actions: list[tuple[str, Any]], is_borrowed: bool, least: int
) -> None:
    c = Cluster(is_borrowed=is_borrowed, min_nodes=least)
    for action, value in actions:
        _act(c, action, value)
        assert c.num_open <= c.engine.max_nodes
        assert len(c.of("submit")) <= MOST_AT_ONCE * len(actions)
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
        case "take":
            node = f"n{value}"
            if c.slurm.state(node) == "idle":
                c.slurm.states[node] = "allocated"
            else:
                c.slurm.states.pop(node, None)
