"""Which slices there are, are to come and are to go: what is decided after each look at Slurm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from swell.executors.slurm.host_names import job_of
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
from swell.executors.slurm.refusals import remedy_of_wait
from swell.executors.slurm.slice_state import (
    DRAINED,
    IDLE,
    OVER,
    STARTED,
    SliceState,
    has_ended,
    words_of_end,
)
from swell.executors.slurm.slurm_port import SliceJob, SlurmNode, SlurmRead

#: A host that was told to leave has done so within this time, or its job is cancelled. A job that was
#: submitted is in the answers of Slurm by then.
GONE_S = 15.0
#: Between tries after a failure.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 4.0, 120.0
#: No more jobs are submitted at once.
MOST_AT_ONCE = 32
#: A slice of an idle node that does not begin within this time has lost the node to another job.
BORROW_WAIT_S = 20.0
#: An end that differs by less is told as the same: clocks and answers of Slurm are in whole seconds.
SAME_END_S = 2.0
#: States of a node in which others could have it at once.
IDLE_STATES = frozenset({"idle", "planned"})
#: Ends of a job that are failures of its own.
FAILURES = frozenset({"FAILED", "BOOT_FAIL", "OUT_OF_MEMORY", "LAUNCH_FAILED"})
DONE = "COMPLETED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """How many slices a platform may have, and what one is."""

    max_slices: int
    min_slices: int = 0
    num_devices: int = 1  #: of a slice
    idle_s: float = 60.0
    is_borrowing: bool = False
    partition: str = ""


class SlicePool:
    """Pure: it has no clock and runs no program. `now_s`: by one clock that never goes back."""

    def __init__(
        self, limits: PoolLimits, is_used: Callable[[str], bool], calendar_s: Callable[[], float]
    ) -> None:
        """
        Args:
            is_used: whether a host has workers.
            calendar_s: seconds since 1970, by the clock of the head.
        """
        self._limits, self._is_used, self._calendar_s = limits, is_used, calendar_s
        self._slices: dict[int, SliceState] = {}
        self._hosts: dict[str, int] = {}  #: job of each host that has joined
        self._nodes: dict[str, SlurmNode] = {}
        self._ends: dict[int, str] = {}  #: how jobs have ended, in Slurm's words
        self._num_wanted: int | None = None  #: devices; None: no daemon has told yet
        self._asking: list[str] = []  #: nodes of the submissions under way; empty: on any
        self._pause_s, self._not_before_s = 0.0, -math.inf
        self._ahead_s = 0.0  #: Slurm's clock, of the head's, as far as is known
        self._told: dict[str, str] = {}  #: causes, by what they are about
        self._is_read = False

    # ------------------------------------------------------------ what happens
    def want(self, num_devices: int) -> None:
        """Jobs could use so many devices together."""
        self._num_wanted = num_devices

    def host_joined(self, host: str) -> None:
        """A host that Slurm has started."""
        if (job := job_of(host)) is not None:
            self._hosts[host] = job
            self._pause_s = 0.0
            if job in self._slices:
                self._slices[job].set_host(host)

    def host_lost(self, host: str) -> None:
        """It is the platform's no longer."""
        job = self._hosts.pop(host, None)
        slice_ = None if job is None else self._slices.get(job)
        if slice_ is not None and slice_.host == host:
            slice_.set_host("")

    def submitted(self, job: int, now_s: float, node: str = "") -> None:
        """Slurm has taken a slice for this node; empty: for any."""
        self._asking.remove(node)
        self._told.pop(self._about, None)
        if job not in self._slices:
            self._slices[job] = SliceState(SliceJob(id=job, state="PENDING"), now_s, now_s, node)
        self._slices[job].asked_node = node

    def refused(self, why: str, now_s: float, node: str = "") -> list[Order]:
        """A submission came to nothing: the next one waits longer each time."""
        self._asking.remove(node)
        self._back_off(now_s)
        return self._tell(self._about, why)

    def read(self, read: SlurmRead, now_s: float) -> list[Order]:
        """Take what Slurm says, and decide."""
        self._is_read = True
        self._nodes = {node.name: node for node in read.nodes}
        orders = self._note_jobs({job.id: job for job in read.jobs}, now_s)
        orders += self._give_up_hosts()
        orders += self._leave_drained(now_s)  # those that were warned at an earlier look
        for slice_ in self._slices.values():
            orders += self._warn(slice_, now_s)
        return [*orders, *self._tell_waits(), *self.decide(now_s)]

    def bear_silence(self, now_s: float) -> list[Order]:
        """Slurm does not answer: what is known of the ends of slices is told all the same."""
        orders: list[Order] = []
        for slice_ in self._slices.values():
            slice_.assume_begun()
            orders += self._warn(slice_, now_s)
        return orders

    def decide(self, now_s: float) -> list[Order]:
        """Ask for slices, or give some back, once it is known what there is."""
        if not self._is_read:
            return []
        orders = [*self._finish_releases(now_s), *self._drop_stale(now_s)]
        kept = [slice_ for slice_ in self._slices.values() if slice_.is_kept(now_s)]
        orders += self._leave_renewed(kept, now_s)
        missing = self._num_slices(len(kept)) - len(kept) - len(self._asking)
        if missing > 0:
            return [*orders, *self._take_back(kept), *self._ask(missing, now_s)]
        return [*orders, *self._give_back(kept, -missing, now_s)]

    def _num_slices(self, num_kept: int) -> int:
        """How many there should be: as they are, as long as no daemon has told."""
        limits = self._limits
        if self._num_wanted is None:
            return max(limits.min_slices, num_kept)
        wanted = math.ceil(self._num_wanted / limits.num_devices)
        return max(limits.min_slices, min(limits.max_slices, wanted))

    @property
    def _about(self) -> str:
        return f"slurm-{self._limits.partition or 'slices'}"

    @property
    def jobs(self) -> list[int]:
        """Jobs that have not ended, as far as is known."""
        return sorted(self._slices)

    @property
    def nodes(self) -> Mapping[str, SlurmNode]:
        """Nodes of the partition, as last read."""
        return self._nodes

    @property
    def own_nodes(self) -> set[str]:
        """Nodes on which slices run."""
        return {slice_.job.node for slice_ in self._slices.values() if slice_.is_started}

    # ------------------------------------------------------------ jobs
    def _note_jobs(self, jobs: Mapping[int, SliceJob], now_s: float) -> list[Order]:
        for job in jobs.values():
            if not has_ended(job):
                self._note(job, now_s)
        orders: list[Order] = []
        for job_id, slice_ in list(self._slices.items()):
            seen = jobs.get(job_id)
            is_fresh = seen is None and slice_.is_waiting and now_s < slice_.seen_s + GONE_S
            if not is_fresh and (seen is None or has_ended(seen)):
                orders += self._end(slice_, seen or slice_.job, now_s)
        return orders

    def _note(self, job: SliceJob, now_s: float) -> None:
        slice_ = self._slices.get(job.id)
        if slice_ is None:
            slice_ = self._slices[job.id] = SliceState(job, now_s, now_s)
            slice_.host = next((host for host, of in self._hosts.items() if of == job.id), "")
            if job.state in STARTED and job.left_s is not None and job.limit_s is not None:
                slice_.end_s = now_s + min(job.limit_s, job.left_s - self._ahead_s)
            return
        if slice_.has_begun(job):
            slice_.begin(job, self._begun_s(slice_, job, now_s), now_s)
        else:
            slice_.note(job, now_s)

    def _begun_s(self, slice_: SliceState, job: SliceJob, now_s: float) -> float:
        """When it began: after Slurm last spoke of it, which may be long ago, and by now.

        Within that time it is as Slurm's clock says, of which it is learnt how far ahead it is.
        """
        if job.started_s is None:
            return slice_.noted_s
        started_s = now_s + job.started_s - self._calendar_s()
        begun_s = min(max(started_s - self._ahead_s, slice_.noted_s), now_s)
        self._ahead_s = started_s - begun_s
        return begun_s

    def _end(self, slice_: SliceState, job: SliceJob, now_s: float) -> list[Order]:
        """Slurm has no process of it any longer."""
        del self._slices[job.id]
        is_given_up = slice_.released_s is not None or job.id in self._hosts.values()
        self._ends = {of: why for of, why in self._ends.items() if of in self._hosts.values()}
        self._ends[job.id] = words_of_end(job)
        if not is_given_up and job.state in (*FAILURES, DONE):  # the next one may end at once, too
            self._back_off(now_s)
        if is_given_up or job.state not in FAILURES:
            return []
        why = f"its host ended at once ({words_of_end(job)})"
        return self._tell(f"{job.node or 'node'}-{job.id}", why, job.id)

    def _back_off(self, now_s: float) -> None:
        self._pause_s = min(max(FIRST_PAUSE_S, 2 * self._pause_s), LONGEST_PAUSE_S)
        self._not_before_s = now_s + self._pause_s

    def _give_up_hosts(self) -> list[Order]:
        """Those whose job does not run any longer. Said again until each is lost: it may have a line yet."""
        orders: list[Order] = []
        for host, job in self._hosts.items():
            slice_ = self._slices.get(job)
            if slice_ is None and job in self._ends:
                orders.append(GiveUpHost(host=host, why=f"Slurm has ended its job {job} ({self._ends[job]})"))
            elif slice_ is not None and slice_.is_waiting:
                orders.append(GiveUpHost(host=host, why=f"Slurm has requeued its job {job}"))
        return orders

    # ------------------------------------------------------------ what nodes are told
    def _warn(self, slice_: SliceState, now_s: float) -> list[Order]:
        """When its time is over, that it soon is, or that its node is drained, if that is news."""
        if not slice_.host or slice_.released_s is not None:
            return []
        orders: list[Order] = self._tell_end(slice_, now_s)
        orders += self._warn_of_end(slice_, now_s) if slice_.is_over(now_s) else []
        is_drained = self._is_drained(slice_)
        if is_drained and DRAINED not in slice_.warned:
            slice_.warned.add(DRAINED)
            orders.append(WarnNode(host=slice_.host, within_s=None, why=DRAINED))
        elif not is_drained and slice_.job.node in self._nodes and DRAINED in slice_.warned:
            slice_.warned.discard(DRAINED)
            orders.append(ClearNode(host=slice_.host, why=DRAINED))
        return orders

    def _is_drained(self, slice_: SliceState) -> bool:
        node = self._nodes.get(slice_.job.node)
        return node is not None and "drain" in node.state

    def _tell_end(self, slice_: SliceState, now_s: float) -> list[Order]:
        leave_s, told_s = slice_.leave_s, slice_.told_s
        if leave_s == told_s or abs(leave_s - told_s) < SAME_END_S:
            return []
        slice_.told_s = leave_s
        return [TellEnd(host=slice_.host, within_s=max(0.0, leave_s - now_s))]

    def _warn_of_end(self, slice_: SliceState, now_s: float) -> list[Order]:
        if OVER in slice_.warned:
            return []
        slice_.warned.add(OVER)
        return [WarnNode(host=slice_.host, within_s=max(0.0, slice_.end_s - now_s), why=OVER)]

    def _leave_drained(self, now_s: float) -> list[Order]:
        """Slices on drained nodes go when they are empty: Slurm takes a node for drained only then."""
        orders: list[Order] = []
        for slice_ in self._slices.values():
            is_left = DRAINED in slice_.warned and slice_.released_s is None and self._is_drained(slice_)
            if is_left and not self._is_used(slice_.host):
                orders.append(self._release(slice_, now_s))
        return orders

    def _leave_renewed(self, kept: Iterable[SliceState], now_s: float) -> list[Order]:
        """Slices that end soon are left once their successors are there, and go when they are empty."""
        renewed = [
            s for s in self._slices.values() if s.host and s.is_renewed(now_s) and s.released_s is None
        ]
        has_successors = bool(renewed) and sum(bool(s.host) for s in kept) >= self._num_slices(0)
        orders: list[Order] = []
        for slice_ in renewed:
            if has_successors and OVER not in slice_.warned:
                orders += self._warn_of_end(slice_, now_s)
            elif OVER in slice_.warned and not self._is_used(slice_.host):
                orders.append(self._release(slice_, now_s))
        return orders

    def _tell_waits(self) -> list[Order]:
        """Why jobs wait, where waiting alone does not help."""
        waiting = [slice_.job for slice_ in self._slices.values() if slice_.is_waiting]
        for job in waiting:
            if remedy := remedy_of_wait(job.reason):
                num = f"{len(waiting)} slice{'s' * (len(waiting) > 1)}"
                return self._tell(self._about, f"{num} waiting in Slurm's queue ({job.reason}): {remedy}")
        return []

    def _tell(self, about: str, why: str, job: int = 0) -> list[Order]:
        """Once of each cause."""
        if self._told.get(about) == why:
            return []
        self._told[about] = why
        return [TellCause(about=about, why=why, job=job)]

    # ------------------------------------------------------------ more and fewer
    def _ask(self, num: int, now_s: float) -> list[Order]:
        if now_s < self._not_before_s:
            return []
        is_borrowing = self._limits.is_borrowing
        nodes = self._idle_nodes()[:num] if is_borrowing else [""] * min(num, MOST_AT_ONCE)
        self._asking += nodes
        return [SubmitSlice(node=node) for node in nodes]

    def _idle_nodes(self) -> list[str]:
        """Nodes that no job has, and that no slice of ours is meant for."""
        taken = {*self._asking}
        for slice_ in self._slices.values():
            taken |= {slice_.job.node, slice_.asked_node}
        return [
            node.name for node in self._nodes.values() if node.state in IDLE_STATES and node.name not in taken
        ]

    def _drop_stale(self, now_s: float) -> list[Order]:
        """Slices for idle nodes that other jobs were given first, and those that Slurm delays."""
        stale = [
            slice_
            for slice_ in self._slices.values()
            if slice_.released_s is None and (slice_.is_delayed or self._is_outrun(slice_, now_s))
        ]
        return [self._cancel(slice_, now_s) for slice_ in stale]

    def _is_outrun(self, slice_: SliceState, now_s: float) -> bool:
        is_late = slice_.is_waiting and now_s >= slice_.seen_s + BORROW_WAIT_S
        return self._limits.is_borrowing and is_late

    def _cancel(self, slice_: SliceState, now_s: float) -> Order:
        slice_.released_s = now_s
        return CancelSlice(job=slice_.job.id)

    def _release(self, slice_: SliceState, now_s: float) -> Order:
        slice_.released_s = now_s
        return ReleaseHost(host=slice_.host)

    def _take_back(self, kept: Iterable[SliceState]) -> list[Order]:
        """Jobs wait: what was about to be given back stays."""
        return [order for slice_ in kept for order in self._use(slice_)]

    def _use(self, slice_: SliceState) -> list[Order]:
        slice_.idle_since_s = None
        if IDLE not in slice_.warned:
            return []
        slice_.warned.discard(IDLE)
        return [ClearNode(host=slice_.host, why=IDLE)]

    def _give_back(self, kept: Iterable[SliceState], surplus: int, now_s: float) -> list[Order]:
        """Those in the queue first, the latest first; then hosts that have been idle for long."""
        orders: list[Order] = []
        queued = sorted((s for s in kept if s.is_waiting), key=lambda s: -s.job.id)[:surplus]
        orders += [self._cancel(slice_, now_s) for slice_ in queued]
        surplus -= len(queued)
        hosts = sorted((s for s in kept if s.host), key=lambda s: (IDLE not in s.warned, -s.job.id))
        for slice_ in hosts:
            if surplus > 0 and not self._is_used(slice_.host):
                orders += self._leave_idle(slice_, now_s)
                surplus -= 1
            else:
                orders += self._use(slice_)
        return orders

    def _leave_idle(self, slice_: SliceState, now_s: float) -> list[Order]:
        """A host that is not used is left, and goes at the next look unless work has come meanwhile."""
        if slice_.idle_since_s is None:
            slice_.idle_since_s = now_s
        if now_s < slice_.idle_since_s + self._limits.idle_s:
            return []
        if IDLE not in slice_.warned:
            slice_.warned.add(IDLE)
            return [WarnNode(host=slice_.host, within_s=None, why=IDLE)]
        return [self._release(slice_, now_s)]

    def _finish_releases(self, now_s: float) -> list[Order]:
        """Hosts that do not go when they are told to."""
        return [
            self._cancel(slice_, now_s)
            for slice_ in self._slices.values()
            if slice_.released_s is not None and now_s >= slice_.released_s + GONE_S
        ]
