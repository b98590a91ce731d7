"""Build a scenario from what a user asks to simulate, and state the truth that it holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from swell import __version__
from swell.model.errors import InvalidInput
from swell.model.event import AnyEvent, BookingMade, QuotasSet
from swell.model.names import ANY
from swell.model.node import Islands, Node, islands_text
from swell.model.option import told_options
from swell.model.quantities import parse_duration
from swell.model.quota import told_tenant
from swell.model.target import ShareKind
from swell.sim.change_cost import change_cost
from swell.sim.faults import FaultSource, node_failures, parse_fault_rates
from swell.sim.gang import parse_share_mode
from swell.sim.gangs import GangTimes
from swell.sim.job import jobs_of
from swell.sim.kind_nodes import KindNodes
from swell.sim.pool import Pool
from swell.sim.profiles.curve import ProfileSet
from swell.sim.report import Assumptions, ClusterSize, Truth
from swell.sim.simulate import MAX_DEVICES, cluster
from swell.sim.traces.entry import Workload, plural
from swell.sim.world import Scenario

#: Of the head in simulations of logs, where jobs take hours: it need not follow every second.
SETTINGS: dict[str, float] = {"min_hold_s": 60.0, "report_plan_s": 60.0}
#: Where belief is not truth, gangs report their progress so often.
REPORT_S = 300.0
#: Where jobs tell their losses, nearly as often as live ones.
LOSS_REPORT_S = 1.0
#: Standard deviation of a logarithm: with more of it a profile says nothing.
MAX_NOISE = 2.0
#: More failures than one a second are no nodes.
LEAST_MEAN_S = 1.0
#: Tenants that an error about another one names.
MOST_NAMED = 8


CONDITION_OPTIONS = told_options(
    """
resize_cost: MODEL
    Cost of resizes: changed (resized jobs pay ElasticFlow's amounts), profile (as measured live),
    delay:SECONDS (of starts and growths), none, or a number of seconds. Default: changed.
noise: S
    True rates differ from the profile by a factor exp(S x normal). Default: 0.
profile_error (rare): S
    Rates measured in trial runs differ from the true ones by a factor exp(S x normal). Default: 0.
cores (rare): NUMBER
    Cores of each node of --cluster, which the jobs on it share. Default: each device has its own.
cpu_shares (rare): MODE
    What a job's CPU share means: weight (others get what a job does not use) or quota (it gets no more than
    its share of all cores). Default: weight.
node_mtbf_s (--node-mtbf, rare): DURATION
    Mean time between failures of a node. Default: nodes never fail.
node_mttr_s (--node-mttr, rare): DURATION
    Mean time until a failed node is back. Default: 1h.
fault_rates (rare): WHAT=SHARE,...
    Shares of trial runs (trial), launches (launch), resizes (resize) and suspensions (suspend) that fail, of
    resizes and suspensions that lose a worker (loss), and of starts that give a warning (warning). Default:
    none.
refused: WHAT
    What becomes of strict jobs that are refused: they run as soft jobs with their deadlines (soft), or end
    (end), as with `swell submit --or-nothing`. Default: soft.
""",
    cpu_shares=parse_share_mode,
    node_mtbf_s=parse_duration,
    node_mttr_s=parse_duration,
    fault_rates=parse_fault_rates,
)


class Conditions(Assumptions, frozen=True, kw_only=True):
    """The cluster, how the truth differs from what profiles say, and what users do. Raises InvalidInput."""

    nodes: int  #: owned ones; none, if there is a pool, or there are kinds
    devices_per_node: int
    racks: int = 1  #: of equally many owned nodes
    islands: Islands = ()  #: of the devices of each owned node
    kinds: tuple[KindNodes, ...] = ()  #: owned nodes by kind of device, where kinds are named
    pool: Pool | None = None  #: nodes that are borrowed while they are idle
    cpu_shares: ShareKind = ShareKind.WEIGHT
    report_s: float | None = None  #: between two reports of a job; None: as often as is needed
    node_mttr_s: float = 3600.0
    bookings: list[BookingMade] = []  #: that are asked for, and refused where the head refuses them

    def __post_init__(self) -> None:
        if self.kinds and self.pool is not None:
            raise InvalidInput(
                "--pool lends nodes of one kind, and --cluster names kinds; leave the names or --pool out"
            )
        is_empty = self.nodes < 1 or self.devices_per_node < 1
        if (
            is_empty
            and not self.kinds
            and not (self.pool is not None and self.nodes == self.devices_per_node == 0)
        ):
            raise InvalidInput(
                f"a cluster of {self.nodes}x{self.devices_per_node} has no devices; both must be at least 1"
            )
        if self.racks < 1 or self.nodes % self.racks:
            raise InvalidInput(
                f"{self.nodes} nodes are no whole number for each of {self.racks} racks; racks are equal"
            )
        if self.num_devices > MAX_DEVICES:
            raise InvalidInput(
                f"a cluster of {self.shape}{' with its pool' if self.pool else ''} has "
                f"{self.num_devices:,} devices; at most {MAX_DEVICES:,} can be simulated"
            )
        for name, mean_s in (("--node-mtbf", self.node_mtbf_s), ("--node-mttr", self.node_mttr_s)):
            if mean_s is not None and not mean_s >= LEAST_MEAN_S:
                raise InvalidInput(
                    f"{name} is {mean_s:g} s; a mean time must be at least {LEAST_MEAN_S:g} s, and without "
                    "--node-mtbf nodes never fail"
                )
        self._check_cores()
        for name, value in (("--noise", self.noise), ("--profile-error", self.profile_error)):
            if not 0.0 <= value <= MAX_NOISE:
                raise InvalidInput(f"{name} is {value:g}; it must be between 0 and {MAX_NOISE:g}")

    def _check_cores(self) -> None:
        if self.cores is None:
            if self.cpu_shares is not ShareKind.WEIGHT:
                raise InvalidInput("--cpu-shares is about the cores of a node; give --cores")
        elif not self.nodes and not self.kinds:
            raise InvalidInput("--cores is about owned nodes; give --cluster, or leave it out")
        elif not 0.0 < self.cores < math.inf:
            raise InvalidInput(f"--cores is {self.cores:g}; a node has more than 0 cores")

    @property
    def num_devices(self) -> int:
        """Devices of all nodes, as if all that are ever lent were there at the same time."""
        of_kinds = sum(kind.num_devices for kind in self.kinds)
        return of_kinds + self.nodes * self.devices_per_node + (self.pool.num_devices if self.pool else 0)

    @property
    def shape(self) -> ClusterSize:
        devices = self.nodes * self.devices_per_node
        if self.kinds:
            return ClusterSize(
                nodes=sum(kind.nodes for kind in self.kinds),
                devices_per_node=0,
                devices=self.num_devices,
                kinds=self.kinds,
            )
        return ClusterSize(
            nodes=self.nodes,
            devices_per_node=self.devices_per_node,
            devices=devices,
            racks=self.racks,
            islands=islands_text(self.islands),
        )


def set_up(workload: Workload, profiles: ProfileSet, conditions: Conditions) -> Scenario:
    """Raises InvalidInput for conditions that cannot be, UnknownProfile if the workload is of others."""
    if not len(workload.jobs):
        raise InvalidInput(f"{workload.source} holds no job that can be simulated; see `swell trace info`")
    try:
        cost = change_cost(conditions.resize_cost, conditions.num_devices)
    except ValueError as error:
        raise InvalidInput(f"--resize-cost: {error}") from error
    kind = profiles.name
    nodes = _nodes(conditions, kind)
    _check_kinds(workload, conditions.kinds)
    others: list[AnyEvent] = [*conditions.bookings]
    if conditions.quotas or conditions.weights:
        _check_tenants(workload, "--quota", conditions.quotas)
        _check_tenants(workload, "--weights", conditions.weights)
        others.append(QuotasSet(at_s=0.0, quotas=conditions.quotas, weights=conditions.weights))
    if conditions.node_mtbf_s is not None:
        last_s, longest_s = 0.0, 0.0
        for job in workload.jobs:
            last_s, longest_s = max(last_s, job.submit_s), max(longest_s, job.duration_s)
        others += node_failures(
            nodes, conditions.node_mtbf_s, conditions.node_mttr_s, last_s + longest_s, conditions.seed
        )
    return Scenario(
        nodes=nodes,
        jobs=jobs_of(
            workload,
            profiles,
            kind,
            conditions.noise,
            conditions.profile_error,
            conditions.seed,
            conditions.refused,
            {one.kind: one.speed for one in conditions.kinds},
            max((len(node.devices) for node in nodes), default=1),
        ),
        cost=cost,
        timings=GangTimes(report_s=_report_s(workload, conditions)),
        others=others,
        faults=FaultSource(conditions.fault_rates, conditions.seed),
        pool=_pool_beside(nodes, conditions.pool, kind),
        cpu_shares=conditions.cpu_shares,
    )


def _nodes(conditions: Conditions, kind: str) -> tuple[Node, ...]:
    """Owned nodes; of this kind where none is named."""
    if not conditions.kinds:
        width, cores = conditions.devices_per_node, conditions.cores
        return cluster(conditions.nodes, width, kind, cores, conditions.racks, conditions.islands)
    nodes: tuple[Node, ...] = ()
    for one in conditions.kinds:
        nodes += cluster(one.nodes, one.devices_per_node, one.kind, conditions.cores, first=len(nodes))
    return nodes


def _check_kinds(workload: Workload, kinds: Sequence[KindNodes]) -> None:
    """Raises InvalidInput: a job names a kind that the cluster has not."""
    there = {one.kind for one in kinds}
    for job in workload.jobs if kinds else ():
        for name in job.kinds:
            if name != ANY and name not in there:
                raise InvalidInput(
                    f"job {job.id!r} of {workload.source} is for devices of kind {name!r}; --cluster has "
                    f"{', '.join(sorted(there))}: add the kind there, or change the column `kind`"
                )


def _check_tenants(workload: Workload, flag: str, named: Iterable[str]) -> None:
    """Raises InvalidInput: there are no jobs of one that is named."""
    there = {job.tenant or "" for job in workload.jobs}
    for name in named:
        if name not in there:
            some = ", ".join(sorted(map(told_tenant, there))[:MOST_NAMED])
            raise InvalidInput(
                f"{flag}: no job of {workload.source} is of tenant {name!r}; tenants there are {some}"
            )


def _report_s(workload: Workload, conditions: Conditions) -> float:
    """inf: only pauses are told, for nothing else is news."""
    if conditions.report_s is not None:
        return conditions.report_s
    if workload.tells_losses:
        return LOSS_REPORT_S
    is_certain = not conditions.noise and not conditions.profile_error
    return math.inf if is_certain and conditions.cores is None else REPORT_S


def _pool_beside(nodes: Sequence[Node], pool: Pool | None, kind: str) -> Pool | None:
    """Raises InvalidInput if a borrowed node has the name of an owned one."""
    if pool is None:
        return None
    owned = {node.name for node in nodes}
    if clash := sorted(owned.intersection(one.node for one in pool.intervals)):
        raise InvalidInput(
            f"{pool.source}: node {clash[0]!r} has the name of a node of --cluster; rename it in the log"
        )
    return replace(pool, kind=kind)


def truth_of(workload: Workload, conditions: Conditions, settings: Mapping[str, float | str]) -> Truth:
    return Truth(
        trace=workload.source,
        jobs=len(workload.jobs),
        left_out=len(workload.dropped),
        filled=(*workload.filled, *_too_many_asked_for(workload, conditions)),
        profiles=workload.profiles,
        node_mttr_s=None if conditions.node_mtbf_s is None else conditions.node_mttr_s,
        pool=conditions.pool.source if conditions.pool else None,
        cpu_shares=None if conditions.cores is None else conditions.cpu_shares,
        **{name: getattr(conditions, name) for name in Assumptions.__struct_fields__},
        settings=dict(settings),
        version=__version__,
    )


def _too_many_asked_for(workload: Workload, conditions: Conditions) -> Iterator[str]:
    count = sum(job.num_devices > conditions.num_devices for job in workload.jobs)
    if count:
        text = "asked for more devices than the cluster has: on fewer if it fits on them, else refused"
        yield f"{plural(count, 'job')}: {text}"
    num_named = 0 if conditions.kinds else sum(bool(job.kinds) for job in workload.jobs)
    if num_named:
        yield f"{plural(num_named, 'job')}: kind of device ignored, for --cluster names no kinds"
