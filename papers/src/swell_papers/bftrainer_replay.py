"""Trainers on a log of idle nodes, counted as in BFTrainer's evaluation, with the platform's policies."""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray
from swell.model.options import Options
from swell.model.snapshot import BEST_EFFORT, Snapshot
from swell.policies.policy import Policy
from swell.sim.pool import Pool
from swell_papers.bftrainer_inputs import Trainer

#: Of an image: so little is nothing.
WHOLE = 1e-3


@dataclass(eq=False)
class TrainerRun:
    """A trainer that has come and not ended."""

    trainer: Trainer
    begun_s: float  #: it became one of those that share the nodes
    nodes: list[tuple[int, str]] = field(default_factory=list)  #: (number of its arrival in the pool, name)
    images: float = 0.0  #: so far
    resumes_s: float = 0.0  #: it stands still until then
    has_started: bool = False

    @property
    def rate_per_s(self) -> float:
        return float(self.trainer.rates[len(self.nodes)])

    def end_s(self, now_s: float) -> float:
        rate_per_s = self.rate_per_s
        if rate_per_s <= 0.0:
            return math.inf
        return max(now_s, self.resumes_s) + (self.trainer.images - self.images) / rate_per_s

    def advance(self, now_s: float, until_s: float) -> float:
        """Images until then."""
        made = max(0.0, until_s - max(now_s, self.resumes_s)) * self.rate_per_s
        made = min(made, self.trainer.images - self.images)
        self.images += made
        return made


class Accounting:
    """What changes cost. Each function returns the images that it counts as lost."""

    name: str
    hears_of_jobs: bool  #: a trainer that comes or ends leads to a decision, too
    counts_images: bool  #: what is lost is taken off the images made; else time has been lost

    def changed(self, run: TrainerRun, before: int, now_s: float) -> float:
        """It was given more or fewer nodes."""
        raise NotImplementedError

    def preempted(self, run: TrainerRun, before: int, now_s: float) -> float:
        """Nodes of it have left."""
        raise NotImplementedError


class InImages(Accounting):
    """Costs are images at the speed before the change, as in equation 16.

    A trainer's first start costs images at the new speed; to start again after a preemption is free.
    """

    counts_images = True

    def __init__(self, name: str, hears_of_jobs: bool) -> None:
        self.name, self.hears_of_jobs = name, hears_of_jobs

    def changed(self, run: TrainerRun, before: int, now_s: float) -> float:
        trainer, after = run.trainer, len(run.nodes)
        cost_s = trainer.growth_s if after > before else trainer.shrink_s
        rate_per_s = float(trainer.rates[before]) if run.has_started else run.rate_per_s
        run.has_started = True
        return _lose(run, cost_s * rate_per_s)

    def preempted(self, run: TrainerRun, before: int, now_s: float) -> float:
        return _lose(run, run.trainer.preemption_s * float(run.trainer.rates[before]))


class InPauses(Accounting):
    """A trainer that changes stands still for the whole cost, on its new nodes, each start included."""

    name, hears_of_jobs, counts_images = "strict", True, False

    def changed(self, run: TrainerRun, before: int, now_s: float) -> float:
        cost_s = run.trainer.growth_s if len(run.nodes) > before else run.trainer.shrink_s
        return self._pause(run, cost_s, now_s)

    def preempted(self, run: TrainerRun, before: int, now_s: float) -> float:
        return self._pause(run, run.trainer.preemption_s, now_s)

    def _pause(self, run: TrainerRun, cost_s: float, now_s: float) -> float:
        if not run.nodes:
            run.resumes_s = now_s
            return 0.0
        run.resumes_s = max(now_s, run.resumes_s) + cost_s
        return cost_s * run.rate_per_s


def _lose(run: TrainerRun, images: float) -> float:
    run.images -= images
    return images


#: Of an open replayer of the log: it decides when nodes come or go, and there is one.
REPLAYER = InImages("replayer", hears_of_jobs=False)
#: The same costs, with decisions as section 3 of the paper says: also when a trainer comes or ends.
PRINTED = InImages("printed", hears_of_jobs=True)
#: Time that is lost, and decisions as section 3 says.
STRICT = InPauses()


class Ended(NamedTuple):
    """A trainer that did all of its work."""

    model: str
    runtime_s: float  #: from when it shared the nodes


@dataclass(frozen=True)
class Replayed:
    """What came of it. Rows are the times between two changes of anything."""

    ended: tuple[Ended, ...]
    counts_images: bool  #: see `Accounting`
    at_s: FloatArray  #: (K,) begin of each
    length_s: FloatArray  #: (K,)
    made: FloatArray  #: (K,) images
    rescale_lost: FloatArray  #: (K,) images, by the decision at its begin
    preempt_lost: FloatArray  #: (K,) images, by nodes that left at its begin
    num_nodes: FloatArray  #: (K,) idle, in the pool
    num_used: FloatArray  #: (K,) of them, with a trainer
    start_lost: FloatArray  #: (K,) images of `rescale_lost`, by trainers that had no node
    is_decided: FloatArray  #: (K,) 1 where the policy was asked at its begin
    is_preempted: FloatArray  #: (K,) 1 where a trainer lost a node at its begin

    @property
    def net(self) -> FloatArray:
        """(K,) images that are left of those made: time that was lost made none."""
        return self.made - self.counts_images * (self.rescale_lost + self.preempt_lost)

    @property
    def images(self) -> float:
        return float(self.net.sum())

    @property
    def duration_s(self) -> float:
        return float(self.length_s.sum())

    @property
    def node_s(self) -> float:
        """Node-seconds of the pool (Eq. 17, in seconds)."""
        return float(self.num_nodes @ self.length_s)

    @property
    def equivalent_nodes(self) -> float:
        """Equation 18."""
        return self.node_s / self.duration_s if self.duration_s > 0.0 else 0.0

    @property
    def num_decisions(self) -> int:
        return int(self.is_decided.sum())


def replay(
    pool: Pool,
    trainers: Sequence[Trainer],
    policy: Policy,
    accounting: Accounting,
    max_trainers: int,
    from_s: float,
    until_s: float,
) -> Replayed:
    """Run until then, or until there are fewer than `max_trainers` trainers and none is to come.

    Args:
        trainers: by submission.
        max_trainers: that share the nodes at one time, the first submitted first (Pjmax).
    """
    return _Replay(pool, trainers, policy, accounting, max_trainers, from_s, until_s).run()


class _Replay:
    def __init__(
        self,
        pool: Pool,
        trainers: Sequence[Trainer],
        policy: Policy,
        accounting: Accounting,
        max_trainers: int,
        from_s: float,
        until_s: float,
    ) -> None:
        self._policy, self._accounting = policy, accounting
        self._max_trainers, self._until_s = max_trainers, until_s
        self._coming = list(trainers)[::-1]
        self._changes = list(_changes(pool, from_s, until_s))[::-1]
        self._now_s = from_s
        self._runs: list[TrainerRun] = []
        self._idle: dict[str, int] = {}  #: node -> number of its arrival
        self._free: list[tuple[int, str]] = []  #: heap; some may have left
        self._owner: dict[str, TrainerRun] = {}
        self._num_arrivals = self._num_reclaimed = 0
        self._idle_node_s = 0.0
        self._ended: list[Ended] = []
        self._rows = array("d")

    def run(self) -> Replayed:
        while self._now_s < self._until_s:
            turn = self._turn()
            if not self._coming and len(self._runs) < self._max_trainers:
                break
            until_s = min(self._next_s(), self._until_s)
            images = sum(run.advance(self._now_s, until_s) for run in self._runs)
            self._idle_node_s += len(self._idle) * (until_s - self._now_s)
            num_held = sum(len(run.nodes) for run in self._runs)
            self._rows.extend((self._now_s, until_s - self._now_s, images, turn.rescale, turn.preempt))
            self._rows.extend((len(self._idle), num_held, turn.start, turn.is_decided, turn.is_preempted))
            self._now_s = until_s
        columns = np.array(self._rows).reshape(-1, 10).T
        return Replayed(tuple(self._ended), self._accounting.counts_images, *columns)

    # ------------------------------------------------------------ time
    def _next_s(self) -> float:
        change_s = self._changes[-1][0] if self._changes else math.inf
        if not self._accounting.hears_of_jobs:
            return change_s
        has_room = self._coming and len(self._runs) < self._max_trainers
        comes_s = max(self._coming[-1].submit_s, self._now_s) if has_room else math.inf
        return min(change_s, comes_s, min((run.end_s(self._now_s) for run in self._runs), default=math.inf))

    def _turn(self) -> _Turn:
        """All that is due now, then a decision."""
        turn = _Turn()
        is_pool_other = bool(self._changes) and self._changes[-1][0] <= self._now_s
        if is_pool_other:
            self._change_pool(turn)
        are_jobs_others = self._end_and_begin()
        is_due = is_pool_other or (are_jobs_others and self._accounting.hears_of_jobs)
        if is_due and self._runs and (self._idle or self._accounting.hears_of_jobs):
            turn.is_decided = True
            self._follow(self._decide(), turn)
        return turn

    def _change_pool(self, turn: _Turn) -> None:
        _, leaving, joining = self._changes.pop()
        before: dict[TrainerRun, int] = {}
        for node in leaving:
            del self._idle[node]
            self._num_reclaimed += 1
            run = self._owner.pop(node, None)
            if run is not None:
                before.setdefault(run, len(run.nodes))
                run.nodes = [one for one in run.nodes if one[1] != node]
        for run, num in before.items():
            turn.preempt += self._accounting.preempted(run, num, self._now_s)
            turn.is_preempted = True
        for node in joining:
            self._num_arrivals += 1
            self._idle[node] = self._num_arrivals
            heapq.heappush(self._free, (self._num_arrivals, node))

    def _end_and_begin(self) -> bool:
        ended = [run for run in self._runs if run.trainer.images - run.images <= WHOLE]
        for run in ended:
            self._runs.remove(run)
            self._release(run, 0)
            self._ended.append(Ended(run.trainer.model, self._now_s - run.begun_s))
        num_before = len(self._runs)
        while self._coming and len(self._runs) < self._max_trainers:
            if self._coming[-1].submit_s > self._now_s:
                break
            self._runs.append(TrainerRun(self._coming.pop(), self._now_s))
        return bool(ended) or len(self._runs) > num_before

    # ------------------------------------------------------------ decisions
    def _decide(self) -> list[int]:
        snapshot = snapshot_of(self._now_s, self._runs, len(self._idle), self._reclaims_per_node_s)
        counts: list[int] = self._policy.decide(snapshot).workers.tolist()
        return counts

    @property
    def _reclaims_per_node_s(self) -> float:
        return self._num_reclaimed / self._idle_node_s if self._idle_node_s > 0.0 else 0.0

    def _follow(self, counts: Sequence[int], turn: _Turn) -> None:
        before = [len(run.nodes) for run in self._runs]
        for run, count in zip(self._runs, counts, strict=True):
            self._release(run, count)
        for run, count in zip(self._runs, counts, strict=True):
            while len(run.nodes) < count:
                node = heapq.heappop(self._free)
                if self._idle.get(node[1]) == node[0]:
                    insort(run.nodes, node)
                    self._owner[node[1]] = run
        for run, num in zip(self._runs, before, strict=True):
            if len(run.nodes) != num:
                lost = self._accounting.changed(run, num, self._now_s)
                turn.rescale += lost
                turn.start += lost * (num == 0)

    def _release(self, run: TrainerRun, count: int) -> None:
        """The nodes that came last are given back first: those that were idle longest stay longest."""
        while len(run.nodes) > count:
            node = run.nodes.pop()
            del self._owner[node[1]]
            heapq.heappush(self._free, node)


@dataclass
class _Turn:
    """What one turn has cost, in images."""

    rescale: float = 0.0
    start: float = 0.0  #: of it
    preempt: float = 0.0
    is_decided: bool = False
    is_preempted: bool = False


def _changes(pool: Pool, from_s: float, until_s: float) -> Iterator[tuple[float, list[str], list[str]]]:
    """(time, nodes that leave, nodes that join), those of one moment together."""
    found = []
    for one in pool.intervals:
        if one.end_s > from_s and one.start_s < until_s:
            found.append((max(one.start_s, from_s), 1, one.node))
            found.append((one.end_s, 0, one.node))
    found.sort()
    for at_s, group in groupby(found, key=itemgetter(0)):
        changes = list(group)
        yield (
            at_s,
            [node for _, kind, node in changes if not kind],
            [node for _, kind, node in changes if kind],
        )


def snapshot_of(
    now_s: float, runs: Sequence[TrainerRun], num_nodes: int, reclaims_per_node_s: float
) -> Snapshot:
    """What a policy of the platform sees: trainers in order, nodes of one device, images as steps."""
    num = len(runs)
    trainers = [run.trainer for run in runs]
    sizes = [trainer.sizes[: max(0, num_nodes - trainer.least + 1)] for trainer in trainers]
    workers = np.concatenate(sizes).astype(np.int64)
    options = Options(
        starts=np.concatenate([[0], np.cumsum([len(some) for some in sizes])]).astype(np.int64),
        workers=workers,
        devices=workers,
        global_batch=np.zeros_like(workers),
        rate_per_s=np.concatenate(
            [trainer.rates[some] for trainer, some in zip(trainers, sizes, strict=True)]
        ),
        efficiency=np.ones(len(workers)),
    )
    held = np.array([len(run.nodes) for run in runs], dtype=np.int64)
    growth_s = np.array([trainer.growth_s for trainer in trainers])
    shrink_s = np.array([trainer.shrink_s for trainer in trainers])
    left = np.array([trainer.images - run.images for trainer, run in zip(trainers, runs, strict=True)])
    ones, zeros, none = np.ones(num, dtype=np.int64), np.zeros(num), np.zeros(num, dtype=bool)
    return Snapshot(
        now_s=now_s,
        num_devices=num_nodes,
        options=options,
        job_ids=tuple(trainer.id for trainer in trainers),
        job_class=np.full(num, BEST_EFFORT),
        submitted_s=np.array([trainer.submit_s for trainer in trainers]),
        priority=np.zeros_like(ones),
        weight=np.ones(len(ones)),
        deadline_s=np.full(num, math.inf),
        remaining_steps=left,
        done_steps=np.array([run.images for run in runs]),
        devices_per_worker=ones,
        samples_per_step=ones,
        one_worker_per_s=np.array([float(trainer.rates[1]) for trainer in trainers]),
        requested_workers=ones,
        is_pinned=np.zeros(len(growth_s), dtype=bool),
        idle_s=np.zeros(len(growth_s)),
        checkpoint_interval_s=zeros,
        held_workers=held,
        tenant=np.zeros_like(ones),
        num_tenants=1,
        most_workers=held,
        num_changes=np.zeros_like(ones),
        changed_s=np.full(num, -math.inf),
        attained_device_s=zeros,
        growth_cost_s=growth_s,
        shrink_cost_s=shrink_s,
        resize_wait_s=zeros,
        expected_hold_s=zeros,
        start_cost_s=growth_s,
        option_start_s=growth_s[options.rows],
        option_resize_s=np.maximum(growth_s, shrink_s)[options.rows],
        is_promised=none,
        is_undecided=none,
        option_margin_share=np.zeros(len(options.workers)),
        min_hold_s=0.0,
        num_borrowed=num_nodes,
        reclaims_per_node_s=reclaims_per_node_s,
    )
