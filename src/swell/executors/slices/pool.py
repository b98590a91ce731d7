"""Which slices there are, are to come and are to go: what is decided after each look at their cluster."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from swell.executors.slices.engine import SliceEngine
from swell.executors.slices.order import SliceOrder, slice_of
from swell.executors.slices.port import ClusterError, ClusterPort, ClusterRead, SliceJob, SliceState
from swell.model.event import NodeCleared, NodeEndKnown, NodeLost, NodeWarned
from swell.model.quantities import span
from swell.model.retry import retry_pause_s

#: A host that was told to leave has done so within this time, or its job is cancelled. A job that was
#: submitted is in the answers of the cluster by then.
GONE_S = 15.0
#: Between tries after a failure.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 4.0, 120.0
#: No more jobs are submitted at once.
MOST_AT_ONCE = 32
#: A slice of an idle node that does not begin within this time has lost the node to another job.
BORROW_WAIT_S = 20.0
#: The host of a slice that runs joins within this time, or joins again: a firewall may keep it away.
JOIN_S = 120.0
#: An end that differs by less is told as the same: clocks and answers of clusters are in whole seconds.
SAME_END_S = 3.0
#: A slice is left so long before its time limit is over, or for this share of a short one.
LEAVE_S, LEAVE_SHARE = 60.0, 0.25
#: Reasons why a job waits that its turn alone ends.
QUEUE_REASONS = frozenset({"", "Priority", "Resources"})

#: Why a node is to be left, for people.
IDLE = "nothing uses it, so it is given back"
OVER = "the time limit of its slice ends"


class SliceHosts(Protocol):
    """The hosts of slices. The pool gives orders, waits for none, and sees later what came of each."""

    def is_used(self, host: str) -> bool:
        """Whether a host has workers."""

    def release(self, host: str) -> None:
        """Have a host leave, on which nothing runs."""

    def give_up(self, host: str, why: str) -> None:
        """The cluster has ended the job of a host: it is lost, unless it has a line."""

    def report(self, event: NodeWarned | NodeCleared | NodeEndKnown | NodeLost) -> None:
        """Tell the head of a node."""


@dataclass(slots=True)
class _Slice:
    """A slice whose job has not ended."""

    job: SliceJob
    seen_s: float  #: when it was asked for, or first read
    asked_node: str = ""  #: on which it is to run; empty: on any
    end_s: float = math.inf  #: of its time limit; if it waits, as if it had begun when the cluster last spoke
    host: str = ""  #: that has joined
    told_s: float = math.inf  #: when it is to be left, as the head knows of its host
    leaving: str = ""  #: why it is to be left now, as told: IDLE or OVER
    idle_since_s: float | None = None
    absent_since_s: float | None = None  #: its job runs, and no host of it is there
    released_s: float | None = None  #: its host was told to leave, or its job was cancelled

    @property
    def is_waiting(self) -> bool:
        return self.job.state is SliceState.WAITING

    @property
    def is_kept(self) -> bool:
        """Whether the platform can count on it: no other one has to take its place."""
        return self.released_s is None and self.leaving != OVER and self.job.state is not SliceState.ENDING

    @property
    def leave_s(self) -> float:
        """When it is to be left: what it runs has until its end to go."""
        return self.end_s - min(LEAVE_S, LEAVE_SHARE * (self.job.limit_s or math.inf))


class SlicePool:
    """All slices of a platform, without a clock or a process. `now_s`: time since the machine was booted."""

    def __init__(self, engine: SliceEngine, port: ClusterPort, hosts: SliceHosts) -> None:
        self._engine, self._port, self._do = engine, port, hosts
        self._label = f"{engine.name}-slices"  #: what users see in place of a node, where there is no slice
        self._slices: dict[int, _Slice] = {}
        self._hosts: dict[int, str] = {}  #: that have joined, by job
        self._ends: dict[int, str] = {}  #: how jobs of hosts that are there have ended, for people
        self.num_wanted: int | None = None  #: devices that jobs could use; None: no daemon has told yet
        self._num_failures, self._not_before_s = 0, -math.inf
        self._limit_s: float | None = None  #: of the slice that was read last
        self._told: dict[str, str] = {}  #: causes, by what they are about

    # ------------------------------------------------------------ what happens
    async def take_read(
        self, read: ClusterRead, order: SliceOrder, hosts: Collection[str], now_s: float
    ) -> None:
        """Take what the cluster says, decide, and have it done.

        Args:
            order: what further slices are to run.
            hosts: of slices, that have joined.

        Raises ClusterError: the cluster ends no slice now.
        """
        self._hosts = _by_job(hosts)
        self._note_jobs({job.id: job for job in read.jobs}, now_s)
        self.note_hosts(hosts, now_s)
        self._tell_waits(now_s)
        idle = read.idle if self._engine.is_borrowed else None
        await self._cancel_late(now_s, is_node_named=idle is not None)
        kept = [slice_ for slice_ in self._slices.values() if slice_.is_kept]
        missing = self._num_slices(len(kept), read.num_fit) - len(kept)
        if missing <= 0:
            await self._give_back(kept, -missing, now_s)
            return
        for slice_ in kept:
            self._use(slice_, now_s)
        if now_s >= self._not_before_s:
            nodes = [""] * min(missing, MOST_AT_ONCE) if idle is None else self._untaken(idle)[:missing]
            await self._submit(order, nodes, now_s)

    def note_hosts(self, hosts: Collection[str], now_s: float) -> None:
        """Say when hosts are to be left, and give up those without a job; also in silence."""
        self._hosts = _by_job(hosts)
        self._ends = {job: why for job, why in self._ends.items() if job in self._hosts}
        for job, why in self._ends.items():  # until each is lost: it may have a line yet
            self._do.give_up(self._hosts[job], f"{self._engine.cluster} has ended slice {job} ({why})")
        for job, slice_ in self._slices.items():
            if slice_.host != (host := self._hosts.get(job, "")):
                slice_.host, slice_.told_s, slice_.idle_since_s, slice_.leaving = host, math.inf, None, ""
                self._num_failures = 0 if host else self._num_failures
            is_absent = slice_.job.state is SliceState.RUNNING and not host
            slice_.absent_since_s = (slice_.absent_since_s or now_s) if is_absent else None
            if slice_.host and slice_.released_s is None:
                self._tell_end(slice_, now_s)

    def _tell_end(self, slice_: _Slice, now_s: float) -> None:
        """When it is to be left, if that is news. In its last minute it is, and goes once it is empty."""
        leave_s, told_s = slice_.leave_s, slice_.told_s
        if leave_s != told_s and not abs(leave_s - told_s) < SAME_END_S:
            slice_.told_s = leave_s
            until_s = None if leave_s == math.inf else leave_s
            self._do.report(NodeEndKnown(at_s=now_s, name=slice_.host, until_s=until_s))
        if now_s >= leave_s:
            self._leave(slice_, OVER, now_s)
        elif slice_.leaving == OVER:  # it was taken to begin sooner than it did, or has more time
            self._stay(slice_, now_s)

    def _leave(self, slice_: _Slice, why: str, now_s: float) -> None:
        """Nothing comes to it any more, and it goes at a later look, once it is empty."""
        if slice_.leaving != why:
            self._stay(slice_, now_s)
            slice_.leaving = why
            until_s = slice_.end_s if why == OVER else None
            self._do.report(NodeWarned(at_s=now_s, name=slice_.host, until_s=until_s, why=why))
        elif not self._do.is_used(slice_.host):
            slice_.released_s = now_s
            self._do.release(slice_.host)

    def _stay(self, slice_: _Slice, now_s: float) -> None:
        if slice_.leaving:
            self._do.report(NodeCleared(at_s=now_s, name=slice_.host, why=slice_.leaving))
            slice_.leaving = ""

    # ------------------------------------------------------------ jobs
    def _note_jobs(self, jobs: Mapping[int, SliceJob], now_s: float) -> None:
        for job in jobs.values():
            if not job.state.is_end:
                slice_ = self._slices.setdefault(job.id, _Slice(job, now_s))
                slice_.job, slice_.end_s = job, self._end_s(job, now_s)
                self._limit_s = job.limit_s
        for job_id, slice_ in list(self._slices.items()):
            seen = jobs.get(job_id)
            is_fresh = seen is None and slice_.is_waiting and now_s < slice_.seen_s + GONE_S
            if not is_fresh and (seen is None or seen.state.is_end):
                self._end(slice_, seen or slice_.job, now_s)

    def _end_s(self, job: SliceJob, now_s: float) -> float:
        latest_s = math.inf if job.limit_s is None else now_s + job.limit_s
        if job.state is not SliceState.RUNNING or job.left_s is None:
            return latest_s
        return min(latest_s, now_s + job.left_s)

    def _end(self, slice_: _Slice, job: SliceJob, now_s: float) -> None:
        """The cluster has no process of it any longer."""
        del self._slices[job.id]
        self._ends[job.id] = job.words
        is_expected = slice_.released_s is not None or job.id in self._hosts
        is_failure = job.state is SliceState.FAILED
        if not is_expected and (is_failure or job.state is SliceState.DONE):  # the next may end at once, too
            self._back_off(now_s)
        if not is_expected and is_failure:
            self._tell_host(job, f"its host ended at once ({job.words})", now_s)

    def _back_off(self, now_s: float) -> None:
        self._num_failures += 1
        self._not_before_s = now_s + retry_pause_s(self._num_failures, FIRST_PAUSE_S, LONGEST_PAUSE_S)

    def _tell_waits(self, now_s: float) -> None:
        """Why slices wait, where waiting alone may not help, in the cluster's word."""
        waiting = [one.job for one in self._slices.values() if one.is_waiting]
        reason = next((job.reason for job in waiting if job.reason not in QUEUE_REASONS), "")
        if reason:
            num = f"{len(waiting)} slice{'s' * (len(waiting) > 1)}"
            self._tell(self._label, f"{num} waiting in {self._engine.cluster}'s queue ({reason})", now_s)

    def _tell_host(self, job: SliceJob, why: str, now_s: float) -> None:
        """Why the host of a slice has not come to be a node."""
        self._tell(f"{job.node or 'node'}-{job.id}", why, now_s)

    def _tell(self, about: str, why: str, now_s: float) -> None:
        """Why there is no slice, once of each cause. `about`: in place of the name of a node."""
        if self._told.get(about) != why:
            self._told[about] = why
            self._do.report(NodeLost(at_s=now_s, name=about, cause=why))

    # ------------------------------------------------------------ more and fewer
    async def _submit(self, order: SliceOrder, nodes: Sequence[str], now_s: float) -> None:
        """Ask for a slice on each of these nodes. After a failure the next one waits longer each time."""
        try:
            for node in nodes:
                job = await self._port.submit(order, node)
                self._told.pop(self._label, None)
                begun = SliceJob(id=job, state=SliceState.WAITING, limit_s=self._limit_s)
                self._slices[job] = _Slice(begun, now_s, node, self._end_s(begun, now_s))
        except ClusterError as error:
            self._back_off(now_s)
            self._tell(self._label, str(error), now_s)

    def _num_slices(self, num_kept: int, num_fit: int) -> int:
        """How many there should be: as they are, as long as no daemon has told."""
        least, most = self._engine.min_nodes, self._engine.max_nodes or num_fit
        if self.num_wanted is None:
            return max(least, num_kept)
        wanted = math.ceil(self.num_wanted / self._engine.num_devices)
        return max(least, min(most, wanted))

    def _untaken(self, idle: Sequence[str]) -> list[str]:
        """Nodes that no slice of ours is meant for."""
        taken = set[str]()
        for slice_ in self._slices.values():
            taken |= {slice_.job.node, slice_.asked_node}
        return [node for node in idle if node not in taken]

    async def _cancel_late(self, now_s: float, *, is_node_named: bool) -> None:
        """Hosts that do not go or do not join, and slices for idle nodes that other jobs were given first."""
        for slice_ in self._slices.values():
            if slice_.released_s is not None:
                is_late = now_s >= slice_.released_s + GONE_S
            elif slice_.absent_since_s is not None:
                is_late = now_s >= slice_.absent_since_s + JOIN_S
                if is_late:  # the next one may not be able to join either
                    self._back_off(now_s)
                    why = (
                        f"its host did not join within {span(JOIN_S)}, so it is given back: nodes must reach "
                        "the head; check the network, or name an address that they reach with --listen"
                    )
                    self._tell_host(slice_.job, why, now_s)
            else:
                is_late = is_node_named and slice_.is_waiting and now_s >= slice_.seen_s + BORROW_WAIT_S
            if is_late:
                await self._cancel(slice_, now_s)

    async def _cancel(self, slice_: _Slice, now_s: float) -> None:
        slice_.released_s = now_s
        await self._port.cancel([slice_.job.id])

    def _use(self, slice_: _Slice, now_s: float) -> None:
        """What was about to be given back stays."""
        slice_.idle_since_s = None
        if slice_.leaving == IDLE:
            self._stay(slice_, now_s)

    async def _give_back(self, kept: Sequence[_Slice], surplus: int, now_s: float) -> None:
        """Those in the queue first, the latest first; then hosts that have been idle for long."""
        queued = sorted((s for s in kept if s.is_waiting), key=lambda s: -s.job.id)[:surplus]
        for slice_ in queued:
            await self._cancel(slice_, now_s)
        surplus -= len(queued)
        for slice_ in sorted((s for s in kept if s.host), key=lambda s: (s.leaving != IDLE, -s.job.id)):
            if surplus > 0 and not self._do.is_used(slice_.host):
                # It is left, and goes at the next look unless work has come meanwhile.
                slice_.idle_since_s = now_s if slice_.idle_since_s is None else slice_.idle_since_s
                if now_s >= slice_.idle_since_s + self._engine.idle_s:
                    self._leave(slice_, IDLE, now_s)
                surplus -= 1
            else:
                self._use(slice_, now_s)


def _by_job(hosts: Collection[str]) -> dict[int, str]:
    return {job: host for host in hosts if (job := slice_of(host)) is not None}
