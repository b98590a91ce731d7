"""Trainers of BFTrainer's evaluation on idle nodes in the platform's simulator, and what comes of it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from swell.arrays import FloatArray
from swell.model.job import EndCondition, JobSpec, Phase
from swell.sim.change_cost import constant
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome, SegmentLog, gangs
from swell.sim.pool import HOUR_S, Pool
from swell.sim.profiles.curve import ThroughputCurve
from swell.sim.simulate import simulate
from swell.sim.true_speed import TrueRates
from swell.sim.world import Scenario
from swell_papers.bftrainer_inputs import DRAWN, FROM_S, HPO, UNTIL_S, Trainer, nodes_of, read_trainers
from swell_papers.variants import variant_core

#: Images of a step: 64 for each of a node's six GPUs, on 64 nodes. It only says how work is cut into steps.
BATCH = 64 * 6 * 64
KIND = "summit"
OPTIMISER, HEURISTIC = "bftrainer", "bftrainer_equal_share"
#: Forward-looking time of most figures, in seconds (section 5.1.2).
FORWARD_S = 120.0


def _job(trainer: Trainer) -> SimJob:
    """The head believes in the trainer's costs and speeds, as if a trial run had measured them."""
    curve = ThroughputCurve(trainer.model, BATCH, trainer.sizes, trainer.rates / BATCH)
    num_steps = round(trainer.total_images / BATCH)
    return SimJob(
        id=trainer.job,
        submit_s=trainer.submit_s,
        spec=JobSpec(
            name=trainer.model,
            entry=trainer.model,
            workdir="/",
            global_batch=BATCH,
            end=EndCondition(steps=num_steps),
            min_workers=trainer.min_nodes,
            max_workers=trainer.max_nodes,
        ),
        profile=msgspec.structs.replace(
            curve.profile(KIND), growth_s=trainer.up_cost_s, shrink_s=trainer.down_cost_s
        ),
        speed=TrueRates(curve.sizes, curve.rate_per_s),
        num_steps=num_steps,
        model=trainer.model,
        cost=constant(trainer.up_cost_s, trainer.down_cost_s),
    )


class Setting(NamedTuple):
    """What one run is of."""

    policy: str = OPTIMISER
    forward_s: float = FORWARD_S
    max_trainers: int = 10
    efficiency_share: float = 0.0  #: the objective: samples per second, or 1: scaling efficiency
    trainers: str = HPO
    model: str = ""  #: of all trainers; empty: each its own
    cost_factor: float = 1.0
    nodes: str | int = DRAWN  #: or a number that stay
    span_s: float = UNTIL_S - FROM_S
    checkpoint_s: float = 1.0  #: between two, so that nothing is lost

    @property
    def parameters(self) -> dict[str, float]:
        limit = {"max_trainers": float(self.max_trainers)}
        own = {"t_fwd_s": self.forward_s, "efficiency_share": self.efficiency_share}
        return limit if self.policy == HEURISTIC else limit | own


#: What a change of a trainer loses: when, images, and 1 where a node left, 0 where the policy did it.
Loss = tuple[float, float, float]


@dataclass(frozen=True, eq=False, kw_only=True)
class PoolRun:
    """What came of a setting, in seconds since the first trainer came.

    It is counted until there are fewer trainers than may share the nodes, and none is to come.
    """

    setting: Setting
    trainers: Mapping[str, Trainer]  #: by id
    pool: Pool
    until_s: float
    jobs: Sequence[JobOutcome]  #: by submission, with what their gangs did
    told_images: float  #: by steps, as the platform counts them
    kept_device_s: float  #: on nodes that had been reclaimed
    steady: Callable[[Setting], PoolRun]  #: makes another run, of nodes that stay

    def images_by(self, at_s: FloatArray) -> FloatArray:
        """(len(at_s),) images up to each of these moments."""
        return np.interp(at_s, *self._images)

    def images(self, from_s: float = 0.0, until_s: float = math.inf) -> float:
        before, after = self.images_by(np.array([from_s, min(until_s, self.until_s)]))
        return float(after - before)

    @cached_property
    def _images(self) -> tuple[FloatArray, FloatArray]:
        """Moments at which speeds change, and the images up to each."""
        begins_s, ends_s, rates = np.array(
            [
                (one.trains_from_s, one.until_s, BATCH * one.rate_per_s)
                for job in self.jobs
                for one in job.segments
                if one.trains_from_s < one.until_s
            ]
        ).T
        at_s, place = np.unique(np.concatenate([begins_s, ends_s]), return_inverse=True)
        speeds = np.cumsum(np.bincount(place, np.concatenate([rates, -rates])))
        return at_s, np.append(0.0, np.cumsum(speeds[:-1] * np.diff(at_s)))

    @cached_property
    def losses(self) -> FloatArray:
        """(3, L) of all trainers. As equation 16 counts it: at the speed before; starts are free."""
        leaving = {(f"{one.node}.0", one.end_s) for one in self.pool.intervals}
        lost = [row for job in self.jobs for row in self._losses_of(job, leaving)]
        return np.array([row for row in lost if row[0] < self.until_s]).reshape(-1, 3).T

    def _losses_of(self, job: JobOutcome, leaving: set[tuple[str, float]]) -> Iterator[Loss]:
        trainer = self.trainers[job.id]
        for gang in gangs(job.segments):
            pieces = [one for one in gang if one.rate_per_s > 0.0]
            for one, after in zip_longest(pieces, pieces[1:]):
                at_s = one.until_s if after is None else after.from_s
                growth = (0 if after is None else len(after.devices)) - len(one.devices)
                is_left = any((device, at_s) in leaving for device in one.devices)
                if is_left or (growth and (after is not None or gang[-1].end == "suspended")):
                    cost_s = trainer.up_cost_s if growth > 0 and not is_left else trainer.down_cost_s
                    yield at_s, BATCH * one.rate_per_s * cost_s, float(is_left)

    def lost(self, is_left: bool, from_s: float = 0.0, until_s: float = math.inf) -> float:
        """Images that nodes that left, or changes of the policy, lose in this time."""
        at_s, images, by_node = self.losses
        return float(images[(by_node == is_left) & (from_s <= at_s) & (at_s < until_s)].sum())

    @cached_property
    def moments_s(self) -> FloatArray:
        """When nodes came or went."""
        at_s = np.unique([(one.start_s, one.end_s) for one in self.pool.intervals])
        return at_s[at_s < self.until_s]

    @cached_property
    def decided_s(self) -> FloatArray:
        """When nodes came or went, or trainers ended."""
        ends_s = [job.end_s for job in self.jobs if job.end_s is not None]
        at_s = np.unique(np.append(self.moments_s, ends_s))
        return at_s[at_s < self.until_s]

    def preempted_percent(self, within_s: float) -> float:
        """Share of decisions after which some trainer loses a node within that time."""
        at_s, _, by_node = self.losses
        losses_s = np.append(np.unique(at_s[by_node == 1.0]), math.inf)
        next_s = losses_s[np.searchsorted(losses_s, self.decided_s, side="right")]
        return 100.0 * float(np.mean(next_s <= self.decided_s + within_s))

    def utilization_percent(self, from_s: float = 0.0, until_s: float = math.inf) -> float:
        """U (section 4.1.2): images, by those that the same node-hours would have made of nodes that stay.

        Equal trainers share these equally, which is best; of others the whole run is compared with another.
        """
        until_s, setting = min(until_s, self.until_s), self.setting
        nodes = self.pool.equivalent_nodes(from_s, until_s)
        if setting.trainers == HPO:
            trainer, num = next(iter(self.trainers.values())), setting.max_trainers
            sizes, rates = np.append(0, trainer.sizes), np.append(0.0, trainer.rates)
            at_best = num * float(np.interp(nodes / num, sizes, rates)) * (until_s - from_s)
        else:
            other = setting._replace(
                nodes=max(1, round(nodes)), cost_factor=0.0, forward_s=FORWARD_S, span_s=until_s
            )
            steady = self.steady(other)
            at_best = steady.images() * nodes / steady.pool.equivalent_nodes(0.0, until_s)
        return 100.0 * self.images(from_s, until_s) / at_best

    @property
    def unoccupied_percent(self) -> float:
        """Share of the nodes' time in which they had no trainer."""
        pieces = (one for job in self.jobs for one in job.segments if one.from_s < self.until_s)
        used_s = sum(len(one.devices) * (min(one.until_s, self.until_s) - one.from_s) for one in pieces)
        return 100.0 * (1.0 - used_s / self.pool.node_s(0.0, self.until_s))

    def mean_hours(self, model: str = "") -> float | None:
        """Mean time from the first step to the end, of the trainers of this model, or of all, that ended."""
        times_s = [
            one.end_s - one.start_s
            for one in self.jobs
            if one.jct_s is not None and one.end_s is not None and one.start_s is not None
            if model in ("", one.model)
        ]
        return float(np.mean(times_s)) / HOUR_S if times_s else None


@cache
def measured(data: Path, seed: int, setting: Setting) -> PoolRun:
    """Run a setting; the same is run once."""
    trainers = read_trainers(data, setting.trainers, setting.model, setting.cost_factor)
    pool = nodes_of(data, seed, setting.nodes, setting.span_s)
    return run_on(pool, trainers, setting, partial(measured, data, seed))


def run_on(
    pool: Pool, trainers: Sequence[Trainer], setting: Setting, steady: Callable[[Setting], PoolRun]
) -> PoolRun:
    """Run a setting on these nodes, with these trainers, until the last node has left.

    A gang that is lost whole goes back to its checkpoint.
    """
    core = variant_core(setting.policy, {}, setting.parameters)
    coming = as_late_as_can_be(trainers, pool, setting.max_trainers)
    scenario = Scenario(
        nodes=(),
        jobs=[_job(trainer) for trainer in coming if trainer.submit_s < pool.last_s],
        cost=constant(0.0),
        timings=GangTimes(checkpoint_interval_s=setting.checkpoint_s, report_s=math.inf),
        pool=replace(pool, kind=KIND),
    )
    outcome = simulate(core, scenario, with_offers=False, log=SegmentLog())
    jobs = tuple(outcome.jobs)
    ended = [one for one in jobs if one.phase is Phase.SUCCEEDED]
    ends_s = sorted(one.end_s for one in ended if one.end_s is not None)
    too_few = max(0, len(trainers) - setting.max_trainers)
    return PoolRun(
        setting=setting,
        trainers={trainer.job: trainer for trainer in trainers},
        pool=pool,
        until_s=ends_s[too_few] if len(ends_s) > too_few else pool.last_s,
        jobs=jobs,
        told_images=BATCH * (sum(one.num_steps for one in ended) + sum(view.steps for view in core.views())),
        kept_device_s=outcome.kept_device_s,
        steady=steady,
    )


def as_late_as_can_be(trainers: Iterable[Trainer], pool: Pool, most: int) -> Iterator[Trainer]:
    """The same trainers, none submitted before the nodes could have done enough of those before it.

    Until then it could not be one of the `most` that share the nodes, first come, first served, and the head
    would look at it in vain in every turn.
    """
    changes = (
        (at_s, sign) for one in pool.intervals for at_s, sign in ((one.start_s, 1.0), (one.end_s, -1.0))
    )
    at_s, signs = np.array(sorted(changes)).T
    given_node_s = np.append(0.0, np.cumsum(np.cumsum(signs)[:-1] * np.diff(at_s)))
    largest, done_node_s = [0.0] * (most - 1), 0.0  # of those before, `most - 1` may be open yet
    for trainer in trainers:
        due_s = float(np.interp(done_node_s, given_node_s, at_s))
        yield msgspec.structs.replace(trainer, submit_s=max(trainer.submit_s, due_s))
        least_node_s = trainer.total_images / float((trainer.rates / trainer.sizes).max())
        done_node_s += heapq.heappushpop(largest, least_node_s)
