"""What the head needs of others, as protocols; `scheduler` and `assemble` say who answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from swell.arrays import FloatArray, IntArray
from swell.model.cluster import Cluster
from swell.model.command import AnyCommand
from swell.model.event import AnyEvent
from swell.model.job import BetweenSteps, JobSpec, Profile
from swell.model.options import Domain
from swell.model.plan import Allocation, Placement
from swell.model.snapshot import Snapshot
from swell.model.throughput import CheckedEstimate, ThroughputPoint


class World(Protocol):
    """Everything outside the head: time, machines, users."""

    def next_events(self) -> Sequence[AnyEvent]:
        """All that is due, in order of `at_s`; empty when the world has ended."""

    def perform(self, command: AnyCommand) -> None:
        """Begin it. What comes of it is an event; a failure too is an event, never an exception."""


class Journal(Protocol):
    """The truth: batches of events in the order the head saw them."""

    def append(self, batch: Sequence[AnyEvent]) -> None:
        """Keep the batch; it is safe on disk when this returns."""


class Decider(Protocol):
    """Decides what follows from what happened."""

    def handle(self, batch: Sequence[AnyEvent]) -> Sequence[AnyCommand]:
        """Handle a batch; each comes once, in the order of the journal."""


class Decides(Protocol):
    """A scheduling policy, as the head needs it. See `policies.policy.Policy`."""

    @property
    def name(self) -> str: ...

    @property
    def makes_promises(self) -> bool:
        """Whether an undecided job that is not refused has been promised its deadline."""

    @property
    def offered(self) -> Domain:
        """What it chooses from."""

    @property
    def weighs_changes(self) -> bool:
        """Its answer counts what changes cost: each one is made, if it can be."""

    @property
    def forbids_migration(self) -> bool:
        """A running job keeps its devices when it grows, and makes room for no other."""

    @property
    def counts_quotas(self) -> bool:
        """Its answer gives no tenant more than its quota, promises apart."""

    @property
    def period_s(self) -> float:
        """It is asked at least so often; inf: whenever something happens, and at its `wake_s`."""

    def decide(self, snapshot: Snapshot) -> Allocation:
        """Same snapshot, same answer; the order of rows does not matter."""


class Placer(Protocol):
    """Which devices."""

    def place(
        self,
        cluster: Cluster,
        wanted: Mapping[str, int],
        held: Mapping[str, tuple[str, ...]],
        pinned: frozenset[str],
        owned_only: frozenset[str] = frozenset(),
        barred: Mapping[str, frozenset[str]] = MappingProxyType({}),
        staying: frozenset[str] = frozenset(),
    ) -> Placement:
        """Devices for each job of `wanted` (job id -> number of devices, in order of importance).

        All others keep as many as they hold, and jobs keep the devices they hold where that can be. `pinned`
        jobs keep exactly what they hold, `owned_only` jobs get no device of a borrowed node, and those that
        are `barred` none of nodes of these names, but for what they hold. `staying` jobs have what they hold
        and more, or a part of it. The order of `held` means nothing.
        """


class Belief(Protocol):
    """How fast would it go: what the head thinks, learnt from profiles and reports."""

    def learn_profile(self, job_id: str, spec: JobSpec, profile: Profile) -> None: ...

    def learn_rate(
        self,
        job_id: str,
        num_workers: int,
        step_s: float,
        num_steps: int,
        global_batch: int | None = None,
        num_hosts: int = 1,
    ) -> CheckedEstimate | None:
        """A running job's mean seconds a step over its last steps at this size, all that it did beside
        them included but for the time between epochs: corrects the curve and the margins.

        Steps are of the own batch. They were made with `global_batch` samples; None: the own batch.
        A gang on several hosts says nothing about one that is on fewer. Returns how good the estimate was,
        once, as soon as that is known; None of a profile that does not tell what it was made from.
        """

    def doubt_larger(
        self, job_id: str, num_workers: int, elapsed_s: float, global_batch: int | None, num_hosts: int
    ) -> tuple[int, ...]:
        """A running job has trained for so long as `learn_rate` has it: larger sizes that were measured to be
        no faster are believed so only for a time, for no policy would let them run and be measured again.

        Returns sizes of which nothing that was measured is believed any more.
        """

    def depends_on_hosts(self, job_id: str) -> bool:
        """Whether anything is known of the job's gangs on several hosts; else rates are those of one."""

    def learn_between(self, job_id: str, seen: BetweenSteps) -> None:
        """Epochs of a running job have ended: what followed them takes the place of what its trial showed."""

    def between(self, job_id: str) -> BetweenSteps | None:
        """Time between two epochs, which every rate has its part of; None: not known."""

    def rates_per_s(self, job_id: str, sizes: IntArray, hosts: IntArray | None = None) -> FloatArray:
        """(K,) steps/s at each size, the time between epochs counted; 0 where the job cannot run.

        At the own batch; where that grows with the workers, at so many samples for each of them.

        Args:
            hosts: (K,) that a gang of each size is on; None: one.
        """

    def learn_noise(self, job_id: str, noise_scale: float) -> None:
        """What training last measured of a job whose batch may change; see `BatchProfile`."""

    def noise_scale(self, job_id: str) -> float | None:
        """What was learnt of it, in samples; None: nothing."""

    def efficiencies(self, job_id: str, batches: IntArray) -> FloatArray:
        """(K,) of `Options.efficiency`, at these global batches; 0 is the own one."""

    def best_batches(
        self,
        job_id: str,
        sizes: IntArray,
        kept: int,
        hosts: IntArray | None = None,
        by_goodput: bool = False,
    ) -> tuple[FloatArray, IntArray] | None:
        """(K,) rates and the global batches that they are of; None if nothing is known but the own one's.

        Rates are in steps of the own batch; 0 where no batch has so many workers. `kept` is the batch that
        the job has now: another one must be better by more than what is known of either.

        Args:
            by_goodput: the best one has the highest rate times efficiency, else the highest rate.
        """

    def changes_worth(self, job_id: str) -> bool:
        """Whether rates of `best_batches` count what a sample is worth, which changes as training goes on."""

    def rates_at_batch(
        self, job_id: str, sizes: IntArray, global_batch: int, hosts: IntArray | None = None
    ) -> FloatArray | None:
        """(K,) rates with this global batch; None if nothing is known but the own one's.

        In steps of the own batch; 0 where so many workers cannot have it.
        """

    def rate_at_batch(self, job_id: str, num_workers: int, global_batch: int, num_hosts: int = 1) -> float:
        """Steps/s at one size and batch, in steps of the own batch. Only of jobs whose batch may change."""

    def margin_classes(self, job_id: str, sizes: IntArray, hosts: IntArray | None = None) -> IntArray:
        """(K,) which of `margins` hold for the job's rates at these sizes, until it learns again."""

    @property
    def margins(self) -> FloatArray:
        """Margins to plan with, by class: how much longer work may take than rates say, as a share >= 0.

        It is the same array object until something is learnt.
        """

    def throughput(self, job_id: str, sizes: IntArray, hosts: IntArray) -> tuple[ThroughputPoint, ...]:
        """Rates at each size and batch, for people to look at; empty of a job without a profile.

        Args:
            hosts: (K,) that a gang of each size is on.
        """

    def slowdown_share(self, job_id: str) -> float:
        """Share by which the job's steps take longer than was believed before they were measured, >= 0.

        It is the slowdown at the size where it is largest.
        """

    def forget(self, job_id: str) -> None: ...

    def state(self) -> bytes:
        """All that was learnt, as JSON."""

    def restore(self, state: bytes) -> None: ...
