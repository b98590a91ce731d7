"""The evaluation of Hu et al., section 5: an allocator beside the greedy one, over nodes and seeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np

from swell.arrays import FloatArray
from swell.core.core import Core
from swell.core.planner import Planner
from swell.core.platform_core import PlatformCore
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.placement.best_fit import BestFitPlacer
from swell.policies.policy import Policy
from swell.settings import make_settings
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.profiles.built_in import hu
from swell.sim.simulate import simulate
from swell.throughput.belief import FittedBelief
from swell_papers.experiment import Claim, Context, Key, Measure, Paper, Picture, Results, Study
from swell_papers.hu_workload import MINUTE_S, Disturbed, workload
from swell_papers.platform_records import estimate_errors, of_records, start_delays
from swell_papers.variants import variant_policy

#: Seeds of the jobs: so many, from the one that is asked for.
NUM_SEEDS = 5
#: The policy that the paper compares with.
GREEDY = "hu_greedy"
#: Figure 11: when the other allocator has done so many jobs.
NUM_OF_OTHER = 100


class Allocator(msgspec.Struct, frozen=True, kw_only=True):
    """A policy with parameters."""

    policy: str
    parameters: tuple[tuple[str, float | str], ...] = ()

    @property
    def name(self) -> str:
        """Its name in tables."""
        return ", ".join([self.policy, *(f"{name}={value}" for name, value in self.parameters)])


class HuCase(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions under which an allocator runs."""

    nodes: int
    is_all: bool = False  #: all 1,252 jobs, not only those of 5 minutes or more
    disturbed: Disturbed = Disturbed()
    resize_cost: str = "none"


@dataclass(frozen=True, slots=True)
class AllocatorRun:
    """Means are over jobs."""

    queue_min: float  #: from the submission to the first step
    total_min: float  #: from the submission to the end, of jobs that succeeded
    done_s: FloatArray  #: (D,) ends of jobs that succeeded, ascending
    num_resizes: int
    plan_ms: FloatArray  #: (P,) CPU time of decisions that were due: the policy alone
    turn_ms: FloatArray  #: (T,) CPU time of turns of the scheduler

    def more_than(self, other: AllocatorRun) -> float:
        """Jobs that are done in the time in which the other does 100, by the mean total times."""
        return NUM_OF_OTHER * (other.total_min / self.total_min - 1.0)

    def ahead_of(self, other: AllocatorRun) -> float:
        """Jobs that are done, beyond 100, at the moment when the other has done its 100th."""
        at_s = other.done_s[NUM_OF_OTHER - 1]
        return float(np.searchsorted(self.done_s, at_s, side="right") - NUM_OF_OTHER)


class Timed:
    """A policy whose decisions are timed; else it is what the policy is."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.spent_ms: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def decide(self, snapshot: Snapshot) -> Allocation:
        began_s = time.thread_time()
        answer = self._policy.decide(snapshot)
        if snapshot.is_due:
            self.spent_ms.append(1e3 * (time.thread_time() - began_s))
        return answer


@cache
def measured(allocator: Allocator, case: HuCase, seed: int) -> AllocatorRun:
    """Nodes are devices here: a worker of a job is a node of eight GPUs there."""
    jobs = workload(seed, is_all=case.is_all, disturbed=case.disturbed)
    conditions = Conditions(nodes=case.nodes, devices_per_node=1, resize_cost=case.resize_cost, seed=seed)
    timed = Timed(variant_policy(allocator.policy, dict(allocator.parameters)))
    planner = Planner(cast(Policy, timed), BestFitPlacer())
    core = PlatformCore(lambda: Core(planner, FittedBelief(), make_settings(SETTINGS).core))
    outcome = simulate(core, set_up(jobs, hu(), conditions), with_offers=False)
    queues_s = [job.start_s - job.submit_s for job in outcome.jobs if job.start_s is not None]
    done = [(job.end_s, job.jct_s) for job in outcome.jobs if job.jct_s is not None]
    return AllocatorRun(
        queue_min=float(np.mean(queues_s)) / MINUTE_S,
        total_min=float(np.mean([jct_s for _, jct_s in done])) / MINUTE_S,
        done_s=np.sort(np.array([end_s for end_s, _ in done if end_s is not None])),
        num_resizes=sum(job.num_resizes for job in outcome.jobs),
        plan_ms=np.array(timed.spent_ms),
        turn_ms=1e3 * outcome.decision_s,
    )


class BesideGreedy(NamedTuple):
    """A run, and the greedy allocator's with the same jobs; None for the greedy one's own."""

    run: AllocatorRun
    greedy: AllocatorRun | None

    def lead(self, of: Callable[[AllocatorRun, AllocatorRun], float]) -> float | None:
        return None if self.greedy is None else of(self.run, self.greedy)


def _change(ours: float, theirs: float) -> float:
    return 100.0 * (ours / theirs - 1.0) if theirs else 0.0


Column = Measure[BesideGreedy]
QUEUE_MIN = Column("queueing time, min", lambda one: one.run.queue_min, 2, has_interval=True)
TOTAL_MIN = Column("total time, min", lambda one: one.run.total_min, 2, has_interval=True)
QUEUE = Column(
    "queueing time, %",
    lambda one: one.lead(lambda run, greedy: _change(run.queue_min, greedy.queue_min)),
    1,
    has_interval=True,
)
TOTAL = Column(
    "total time, %",
    lambda one: one.lead(lambda run, greedy: _change(run.total_min, greedy.total_min)),
    1,
    has_interval=True,
)
MORE = Column("jobs more per 100", lambda one: one.lead(AllocatorRun.more_than), 1, has_interval=True)
AHEAD = Column("jobs more at its 100th", lambda one: one.lead(AllocatorRun.ahead_of), 1, has_interval=True)
RESIZES = Column("resizes", lambda one: one.run.num_resizes, 0)
#: Of these less is better.
LEAST = (QUEUE, TOTAL)


class Printed(NamedTuple):
    """What the paper says in numbers: ours is to be at least as good."""

    text: str
    figure: float
    measure: Column = MORE
    nodes: int | None = None  #: None: the best of all


#: Section 5.2: "ranging from 70 to 190 nodes with an interval of 20".
NODES = (70, 90, 110, 130, 150, 170, 190)
HU = Allocator(policy="hu")
HU_OVERDUE = Allocator(policy="hu", parameters=(("overdue_share", 0.05),))


def allocator_study(
    number: int,
    title: str,
    *printed: Printed,
    measures: Sequence[Column] = (TOTAL_MIN, MORE, AHEAD, QUEUE),
    beside: tuple[Allocator, ...] = (),
    **conditions: Any,
) -> Study[BesideGreedy]:
    """A figure of the allocator beside the greedy one, over nodes and seeds; the second measure is drawn.

    Args:
        beside: further allocators.
        conditions: further fields of each case.
    """
    cases = {str(nodes): HuCase(nodes=nodes, **conditions) for nodes in NODES}
    allocators = (HU, *beside)

    def runs(context: Context) -> dict[Key, Callable[[], BesideGreedy]]:
        chosen = [Allocator(policy=GREEDY), *(one for one in allocators if context.is_run(one.policy))]
        return {
            (label, allocator.name, seed): partial(beside_greedy, allocator, case, seed)
            for label, case in cases.items()
            for allocator in chosen
            for seed in context.seeds(NUM_SEEDS)
        }

    def best(one: Printed, allocator: str, found: Results[BesideGreedy]) -> float:
        """Our figure for a printed one: that of its case, or the best of all."""
        some = [label for label, case in cases.items() if one.nodes in (None, case.nodes)]
        values = [found.mean(one.measure.of, label, allocator) for label in some]
        return min(values) if one.measure in LEAST else max(values)

    def truth(context: Context, found: Results[BesideGreedy]) -> Iterator[str]:
        yield "simulated, generated jobs"
        yield "a worker is a node; speed n 0.8^log2(n) on n nodes; sizes 1, 2, 4, 8 and 16"
        yield f"resize cost: {', '.join(dict.fromkeys(case.resize_cost for case in cases.values()))}"

    return Study(
        name=f"fig{number}",
        title=f"Figure {number}: {title}",
        cases=runs,
        keys=("nodes", "allocator"),
        measures=(*measures, RESIZES),
        caption=f"means of {NUM_SEEDS} seeds; +-: half of the 95 % interval; changes and jobs are over "
        f"`{GREEDY}` with the same seed",
        pictures=(Picture(measures=(measures[1].name,), x="nodes", lines="allocator"),),
        claims=[
            Claim(
                text=f"{one.text}, {allocator.name}",
                figure=one.figure,
                of=partial(best, one, allocator.name),
                way="<=" if one.measure in LEAST else ">=",
            )
            for one in printed
            for allocator in allocators
        ],
        truth=truth,
        num_seeds=NUM_SEEDS,
    )


def beside_greedy(allocator: Allocator, case: HuCase, seed: int) -> BesideGreedy:
    """Run both."""
    is_greedy = allocator == Allocator(policy=GREEDY)
    greedy = None if is_greedy else measured(Allocator(policy=GREEDY), case, seed)
    return BesideGreedy(measured(allocator, case, seed), greedy)


#: Figure 16: statistics of decisions, and what the paper prints of them in milliseconds.
STATISTICS: dict[str, tuple[Callable[[FloatArray], float], float]] = {
    "mean": (np.mean, 400.0),
    "median": (np.median, 240.0),
    "95th percentile": (partial(np.quantile, q=0.95), 1490.0),
    "most": (np.max, 2480.0),
}
DECISION, TURN = "decision", "whole turn"


def decision_times() -> Study[FloatArray]:
    """How long decisions take: Figure 16. Times are of this machine, and not reproducible."""
    case = HuCase(nodes=NODES[0])

    def statistic(of: Callable[[FloatArray], float], found: Results[FloatArray]) -> float:
        return float(of(found[DECISION,]))

    return Study(
        name="fig16",
        title=f"Figure 16: time of a decision, {case.nodes} nodes",
        cases=lambda context: {
            (DECISION,): lambda: measured(HU, case, context.seed).plan_ms,
            (TURN,): lambda: measured(HU, case, context.seed).turn_ms,
        },
        keys=("what",),
        measures=(
            Measure("number", len, 0),
            *(Measure(told, of) for told, (of, _) in STATISTICS.items()),
        ),
        caption="CPU milliseconds; a decision is the policy from the snapshot to the sizes, once a period; "
        "a turn is the scheduler from an event to the commands, most of them between decisions",
        claims=[
            Claim(text=f"decision, ms: {told}", figure=printed, of=partial(statistic, of), way="<=")
            for told, (of, printed) in STATISTICS.items()
        ],
        truth=f"simulated, {case.nodes} nodes; times are of this machine, and not reproducible",
    )


PAPER = Paper.with_page(
    "hu",
    "Hu et al.",
    "its jobs are not public; they are generated",
    allocator_study(
        9,
        "queueing time",
        Printed("largest decrease of the queueing time, at 150 nodes, %", -32.0, QUEUE, 150),
        Printed("the same at the best number of nodes, %", -32.0, QUEUE),
        measures=(QUEUE, QUEUE_MIN),
    ),
    allocator_study(10, "total time", measures=(TOTAL, TOTAL_MIN)),
    allocator_study(
        11,
        "jobs done in addition",
        Printed("most jobs in addition while the other does 100, at 110 nodes", 17.4, nodes=110),
        Printed("the same at the best number of nodes", 17.4),
        measures=(TOTAL_MIN, MORE, AHEAD),
    ),
    allocator_study(
        12,
        "all 1,252 jobs, most of them shorter than 5 minutes",
        Printed("most jobs in addition while the other does 100", 24.1),
        is_all=True,
    ),
    allocator_study(
        13,
        "estimates that are wrong by up to 10 %",
        Printed("most jobs in addition: 0.6 to 2.4 fewer than 17.4", 15.0),
        disturbed=Disturbed(eta_share=0.1),
        beside=(HU_OVERDUE,),
    ),
    allocator_study(
        14,
        "wrong estimates, 15 % buggy jobs and 10 % that users give up",
        Printed("most jobs in addition", 15.0),
        disturbed=Disturbed(eta_share=0.1, buggy_share=0.15, cancelled_share=0.1),
        beside=(HU_OVERDUE,),
    ),
    allocator_study(
        15,
        "15 s until a start or a growth takes place",
        Printed("most jobs in addition: 0.9 more to 1.8 fewer than 17.4", 15.6),
        resize_cost="delay:15",
    ),
    decision_times(),
    of_records(
        "delays",
        "Section 5.5: delays of starts and growths, measured and assumed",
        "seconds until a decision takes place",
        start_delays,
        printed={"latest start": "15", "growth, during which the old gang trains": "15"},
    ),
    of_records(
        "estimates",
        "Section 5.4: errors of estimates, measured and assumed",
        "error of estimates, % of the measured time, by kind of job",
        estimate_errors,
        printed={"live": "uniform, up to 10", "restart": "uniform, up to 10"},
    ),
)
