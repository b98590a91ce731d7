"""The workers of one job as they really are: how far training has got, when it will be where; and which gangs
share the cores of which nodes, and how fast that leaves each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from swell.checkpoint_interval import FIRST_S
from swell.model.event import AnyEvent
from swell.model.gang_state import GangState, next_state
from swell.model.job import LOSS
from swell.model.node import Node
from swell.model.target import PLAIN_CONFIGURATION, Configuration, ShareKind, Target
from swell.model.usage import GangUsage
from swell.sim.job import SimJob

#: Of a step: so little is nothing, for progress is summed up from pieces.
WHOLE = 1e-4


@dataclass(slots=True)
class CheckpointTimes:
    """Training, a checkpoint, training: as workers do it, by the clock.

    The first checkpoint comes early. Training stands still while one is written.
    """

    rested_since_s: float  #: the end of the last save, or when the gang formed
    interval_s: float
    save_s: float
    saved_s: float | None = None  #: what was trained by then is in the newest checkpoint; None: there is none

    @property
    def training_share(self) -> float:
        """Share of the time in which training goes on, in the long run."""
        return 1.0 / (1.0 + self.save_s / self.interval_s)

    def advance(self, now_s: float) -> None:
        """Make the checkpoints that are whole by now."""
        if math.isinf(self.interval_s):
            return
        if self.saved_s is None:
            first_s = self.rested_since_s + min(self.interval_s, FIRST_S)
            if first_s + self.save_s > now_s:
                return
            self.saved_s, self.rested_since_s = first_s, first_s + self.save_s
        period_s = self.interval_s + self.save_s
        num = int((now_s - self.rested_since_s) // period_s)
        if num > 0:
            self.rested_since_s += num * period_s
            self.saved_s = self.rested_since_s - self.save_s


@dataclass(slots=True)
class SimGang:
    """One job on its devices. Progress is advanced lazily from the rate."""

    job: SimJob
    generation: int
    devices: tuple[str, ...] = ()
    steps: float = 0.0  #: done at `as_of_s`
    saved_steps: float = 0.0  #: in the newest checkpoint
    as_of_s: float = 0.0
    rate_per_s: float = 0.0  #: 0 while nothing is trained
    resumes_s: float = 0.0  #: a pause ends then
    paused_s: float = 0.0  #: length of the latest pause, until it is reported
    changed_s: float = -math.inf  #: when it last became what it is
    change_pause_s: float = 0.0  #: that it pays for what changed then
    mark: int = 0  #: raised by everything of its own that makes an expected end wrong
    pace: float = 1.0  #: factor on its speed, of the cores that its neighbours leave it
    num_paces: int = 0  #: that it has had before
    cpu_s: float = 0.0  #: CPU time that it has used, of a job whose loss is told
    state: GangState = GangState.FORMING  #: changed by `become` alone
    change: AskedChange | None = None  #: while it is FORMING
    configuration: Configuration = PLAIN_CONFIGURATION
    formed_s: float | None = None  #: when its workers first trained; None: they are starting
    known_sets: set[frozenset[str]] = field(default_factory=set)
    answer: AnyEvent | None = None  #: to the latest command; of a gang that is no more, its end
    report_due_s: float = 0.0  #: when it reports next
    report_step: float = 0.0  #: not before it has done so many steps
    node_of: Mapping[str, str] = field(default_factory=dict)  #: of the cluster's devices
    cycle: CheckpointTimes | None = None  #: of its checkpoints, once it trains
    is_unheard: bool = False  #: a loss was told, and no command shows yet that the head has heard of it

    def become(self, state: GangState, change: AskedChange | None = None) -> None:
        """Raises RuntimeError: see `next_state`."""
        self.state, self.change = next_state(self.state, state), change

    @property
    def num_workers(self) -> int:
        return len(self.devices) // self.job.spec.devices_per_worker

    @property
    def told_steps(self) -> int:
        """Whole steps that it tells; none of a fixed job, whose command tells none."""
        return 0 if self.job.spec.fixed else math.floor(self.steps)

    @property
    def limit_s(self) -> float:
        """When the limit of time of a fixed job is over; inf for others."""
        terms = self.job.spec.fixed
        return math.inf if terms is None or self.formed_s is None else self.formed_s + terms.time_s

    @property
    def grace_s(self) -> float:
        """Time that a fixed job takes to end once it is told to."""
        return 0.0 if self.job.spec.fixed is None else self.job.spec.fixed.grace_s

    @property
    def occupied(self) -> frozenset[str]:
        """Devices with a process on them: of its workers, and of those that are starting."""
        coming = () if self.change is None else self.change.target.devices
        return frozenset(self.devices).union(coming)

    @property
    def end_step(self) -> int:
        """Where it stops, one way or the other."""
        dies_at_step = self.job.dies_at_step
        return self.job.num_steps if dies_at_step is None else min(self.job.num_steps, dies_at_step)

    def steps_at(self, now_s: float) -> float:
        """Steps done by then, if nothing changes until then."""
        elapsed_s = now_s - max(self.as_of_s, min(self.resumes_s, now_s))
        return min(self.steps + elapsed_s * self.rate_per_s, float(self.end_step))

    def advance(self, now_s: float) -> None:
        if self.job.loss is not None and self.rate_per_s > 0.0 and now_s > self.resumes_s:
            used_cores = self.pace * self.job.cores_per_worker * self.num_workers
            self.cpu_s += (now_s - max(self.as_of_s, self.resumes_s)) * used_cores
        self.steps, self.as_of_s = self.steps_at(now_s), now_s

    @property
    def usage(self) -> GangUsage | None:
        return None if self.job.loss is None else GangUsage(cpu_s=self.cpu_s)

    def loss(self) -> dict[str, Any]:
        """Return the fields of a report that tell the loss; none for a job that tells no loss."""
        if self.job.loss is None:
            return {}
        value, metric = self.job.loss.reported(math.floor(self.steps + WHOLE)), self.job.spec.metric
        return {"loss": value} if metric == LOSS else {"metrics": {metric: value}}

    def go_at(self, pace: float, now_s: float) -> None:
        """Train from now on at the pace that its neighbours on shared cores leave it."""
        self.advance(now_s)
        self.pace = pace
        self.num_paces += 1
        self.rate_per_s = self.true_rate_per_s

    @property
    def end_mark(self) -> int:
        """Raised by everything that makes an expected end wrong."""
        return self.mark + self.num_paces

    def trains_on(self, devices: tuple[str, ...]) -> bool:
        """Whether it trains, and on just these."""
        return self.rate_per_s > 0.0 and frozenset(devices) == frozenset(self.devices)

    @property
    def global_batch(self) -> int | None:
        """Samples of a step that it was told; None: the job's own."""
        return self.configuration.global_batch

    def train_on(self, target: Target, now_s: float, pause_s: float) -> None:
        """Train on these devices in this configuration from now on, after a pause.

        Of changes at one instant, between which none trains, the longest pause counts alone.
        """
        self.advance(now_s)
        paid_s = self.change_pause_s if self.changed_s == now_s else 0.0
        self.changed_s, self.change_pause_s = now_s, max(paid_s, pause_s)
        self.devices, self.configuration = target.devices, target.configuration
        self.known_sets.add(frozenset(target.devices))
        self.pause(now_s, self.change_pause_s - paid_s)
        self.rate_per_s = self.true_rate_per_s

    def save_each(self, interval_s: float, save_s: float, now_s: float) -> None:
        """Make a checkpoint each time so much was trained."""
        if self.cycle is None:
            self.cycle = CheckpointTimes(now_s, interval_s, save_s)
        else:
            self.cycle.advance(now_s)
            self.cycle.interval_s = interval_s

    def lose_unsaved(self, now_s: float) -> None:
        """Back to the newest checkpoint."""
        self.halt(now_s)
        rate_per_s = self.true_rate_per_s
        if self.cycle is not None:
            self.cycle.advance(now_s)
            if self.cycle.saved_s is not None:
                unsaved_s = now_s - self.cycle.saved_s
                self.saved_steps = max(self.saved_steps, self.steps - unsaved_s * rate_per_s)
        self.steps = self.saved_steps

    @property
    def is_possible(self) -> bool:
        """Whether its workers can have its batch: it may be too large for their memory, or too small."""
        return self._undisturbed_rate_per_s > 0.0

    @property
    def true_rate_per_s(self) -> float:
        """True steps/s at its workers (at least one), batch, pace and progress, whether it trains or not."""
        share = 1.0 if self.cycle is None else self.cycle.training_share
        return self._undisturbed_rate_per_s * self.pace * share

    @property
    def _undisturbed_rate_per_s(self) -> float:
        truth, batch, num_workers = self.job.batches, self.global_batch, max(self.num_workers, 1)
        speed = self.job.speed
        factor = speed.crossing_factor(num_workers, self.num_hosts) if speed.depends_on_hosts else 1.0
        if truth is None or batch is None:
            return speed.rate_per_s(num_workers) * factor
        return truth.rate_per_s(num_workers, batch, self.steps) * speed.factor(num_workers) * factor

    @property
    def num_hosts(self) -> int:
        """Nodes that its workers are on."""
        return len({self.node_of.get(device) for device in self.devices})

    @property
    def next_turn(self) -> float:
        """Steps at which what a step is worth will be another; inf where it stays the same."""
        if self.job.batches is None or self.global_batch is None:
            return math.inf
        return self.job.batches.epoch_end(self.steps)

    def noise_scale(self) -> float | None:
        """Gradient noise scale in samples, as training measures it.

        None unless the job leaves its batch open and a batch was chosen.
        """
        if self.job.batches is None or self.global_batch is None:
            return None
        return self.job.batches.noise_scale(self.global_batch, self.steps)

    def turn_s(self) -> float:
        """When it gets to `next_turn`; inf if it does not."""
        turn = self.next_turn
        if self.rate_per_s <= 0.0 or turn >= self.end_step:
            return math.inf
        return self.reach_s(turn)

    def reach_s(self, steps: float) -> float:
        """When so many steps are done if nothing changes; of a gang that trains."""
        return max(self.as_of_s, self.resumes_s) + (steps - self.steps) / self.rate_per_s

    def whole_step_s(self) -> float:
        """When the step under way is done, of a gang that trains."""
        done = math.ceil(self.steps - WHOLE)
        return self.as_of_s if done - self.steps <= WHOLE else self.reach_s(float(done))

    def first_step_s(self) -> float:
        """When it has done the first step that it reports, of a gang that trains."""
        return self.as_of_s if self.steps >= self.report_step - WHOLE else self.reach_s(self.report_step)

    def pause(self, now_s: float, pause_s: float) -> None:
        """Train nothing for so long, on top of a pause that is under way."""
        self.advance(now_s)
        self.resumes_s = max(self.resumes_s, now_s) + pause_s
        self.mark += 1

    def halt(self, now_s: float) -> None:
        """Train nothing until further notice."""
        self.advance(now_s)
        self.rate_per_s = 0.0
        self.mark += 1

    def drop_step(self, grain_steps: float) -> None:
        """What was done of a step that nothing cuts in two has to be done again."""
        if grain_steps:
            self.steps = math.floor(self.steps / grain_steps + WHOLE) * grain_steps

    def end_s(self) -> float:
        """When it reaches `end_step` if nothing changes; inf if it stands still."""
        return math.inf if self.rate_per_s <= 0.0 else self.reach_s(self.end_step)


@dataclass(frozen=True, slots=True)
class AskedChange:
    """A change whose joiners are starting."""

    target: Target
    pause_s: float | None  #: None: no member stops, for the members stay the same


class SharedCores:
    """Kept up to date with gangs that change: all changes of an instant are settled together.

    A gang over several nodes goes as its slowest workers do, and takes no part of a neighbour's cores for
    that: what its other workers leave unused while they wait is not given away.
    """

    def __init__(self, cpu_shares: ShareKind) -> None:
        self._divide = RULES[cpu_shares]
        self._cores: dict[str, float] = {}  #: of a node
        self._node_of: dict[str, str] = {}  #: of a device
        self._gangs: dict[str, dict[str, SimGang]] = {}  #: node -> job id -> gang that is busy there
        self._nodes: dict[str, tuple[str, ...]] = {}  #: job id -> nodes where its gang is busy
        self._noted: dict[str, SimGang] = {}  #: since the last settlement

    def add(self, node: Node, cores: float) -> None:
        """Gangs on it share so many from now on. Each device of a node that is not added has its own."""
        self._cores[node.name] = cores
        self._gangs.setdefault(node.name, {})
        self._node_of |= dict.fromkeys(node.devices, node.name)

    def note(self, training: SimGang) -> None:
        """The gang is new, is no more, or trains otherwise than before."""
        self._noted[training.job.id] = training

    def settle(self, now_s: float) -> Iterator[tuple[SimGang, float]]:
        """Gangs that go at another pace from now on: factors on their speed."""
        if not self._noted:
            return
        touched = dict.fromkeys(name for one in self._noted.values() for name in self._move(one, now_s))
        busy = {one.job.id: one for one in self._noted.values() if _is_busy(one, now_s)}
        self._noted.clear()
        busy |= {job_id: one for name in touched for job_id, one in self._gangs[name].items()}
        names = dict.fromkeys(name for job_id in busy for name in self._nodes.get(job_id, ()))
        divided = {name: self._divided(name) for name in names}
        for job_id, training in busy.items():
            pace = min((divided[name][job_id] for name in self._nodes.get(job_id, ())), default=1.0)
            if pace != training.pace:
                yield training, pace

    def _move(self, training: SimGang, now_s: float) -> Sequence[str]:
        """Note where the gang is busy; returns the nodes whose gangs are others now, or have other shares."""
        job_id = training.job.id
        left = self._nodes.pop(job_id, ())
        for name in left:
            del self._gangs[name][job_id]
        if not _is_busy(training, now_s):
            return left
        names = {self._node_of[device]: None for device in training.devices if device in self._node_of}
        self._nodes[job_id] = tuple(names)
        for name in names:
            self._gangs[name][job_id] = training
        return (*left, *names)

    def _divided(self, name: str) -> Mapping[str, float]:
        """Return the pace of each gang on this node, by job id."""
        gangs = self._gangs[name]
        demands = [self._demand(one, name) for one in gangs.values()]
        shares = [one.configuration.share or 1.0 for one in gangs.values()]
        given = self._divide(self._cores[name], demands, shares)
        return {
            job_id: 1.0 if got == demand else got / demand
            for job_id, got, demand in zip(gangs, given, demands, strict=True)
        }

    def _demand(self, training: SimGang, name: str) -> float:
        """Cores of the node that the gang would use alone."""
        num_devices = sum(self._node_of.get(device) == name for device in training.devices)
        return training.job.cores_per_worker * num_devices / training.job.spec.devices_per_worker


def _is_busy(training: SimGang, now_s: float) -> bool:
    return training.rate_per_s > 0.0 and training.resumes_s <= now_s


def by_weight(cores: float, demands: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Weighted max-min fairness (water-filling): cores that one does not use go to the others, by weight.

    As the kernel divides CPU time under `cpu.weight` and `cpu.shares`.

    Args:
        demands: cores that each would use alone, >= 0.
        weights: relative to one another, > 0.

    Returns:
        Cores of each: all of its demand where there are enough.

    Complexity: O(n log n).
    """
    if sum(demands) <= cores:
        return list(demands)
    given = list(demands)
    order = sorted(range(len(demands)), key=lambda at: demands[at] / weights[at])
    left, left_weights = cores, [*accumulate(weights[at] for at in reversed(order))][::-1]
    for place, at in enumerate(order):
        level = left / left_weights[place]
        if demands[at] > level * weights[at]:  # and so do all that follow
            for other in order[place:]:
                given[other] = level * weights[other]
            break
        left -= demands[at]
    return given


def by_quota(cores: float, demands: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Each gets its share of all cores at most, used or not; where these are too few, equal parts.

    As under `cpu.max` and `cpu.cfs_quota_us`.

    Args:
        shares: in (0, 1].
    """
    limits = [min(demand, share * cores) for demand, share in zip(demands, shares, strict=True)]
    return by_weight(cores, limits, [1.0] * len(limits))


#: What can be simulated of what a share may mean.
RULES: dict[ShareKind, Callable[[float, Sequence[float], Sequence[float]], list[float]]] = {
    ShareKind.WEIGHT: by_weight,
    ShareKind.QUOTA: by_quota,
}


def parse_share_mode(text: str) -> ShareKind:
    """Raises ValueError for one that is not simulated."""
    if text not in [*RULES]:
        raise ValueError(f"{text!r} is not known; choose one of {', '.join(RULES)}")
    return ShareKind(text)
