"""A plan: the size of each job, its devices, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from swell.arrays import FloatArray, IntArray
from swell.model.options import Options
from swell.model.quantities import span
from swell.model.snapshot import Memory
from swell.model.target import Target

#: Times that differ by less are the same: they are sums of others.
SAME_TIME_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A strict job whose deadline cannot be promised, or any new job for which there is no room."""

    earliest_deadline_s: float | None  #: with which it would be admitted now; None: none, or none is named
    text: str  #: what stands in the way; not the deadline that is offered

    def told(self, now_s: float) -> str:
        """The text and the offer."""
        if self.earliest_deadline_s is None:
            return self.text
        return f"{self.text}; one in {span(self.earliest_deadline_s - now_s)} would be promised"


class Account(Protocol):
    """Why each job gets what it gets, and until when. Most of it is never read: it is made when asked for.

    It depends on the snapshot alone, so it is the same whenever that is.
    """

    @property
    def codes(self) -> Sequence[str]:
        """(J,) for programs: promised, boosted, waiting, at_risk, ...; these are read at once."""

    @property
    def forecast(self) -> PlanForecast:
        """Estimates with what the policy means to give.

        A job that holds nothing and is given devices starts in `start_cost_s`: it ends sooner, or later, by
        as much as its start then takes less, or more.
        """

    def text(self, row: int) -> str:
        """The sentence for people that goes with the code of this row; the forecast is added to it."""


class PlanForecast(NamedTuple):
    """What becomes of the jobs of a plan, in head time."""

    start_s: FloatArray  #: (J,) of those that wait; NaN: that is not known
    finish_s: FloatArray  #: (J,) inf: none can be named, as no size fits


class PromiseOutlook(NamedTuple):
    """How n promises would be kept."""

    rows: IntArray  #: (n,) of the snapshot
    grade: IntArray  #: (n,) the higher, the less firmly; 0: with the margin
    end_s: FloatArray  #: (n,) seconds until the end of the plan of each whose promise is broken; else 0
    num_devices: int  #: that they need now

    def weaker_than(self, other: PromiseOutlook) -> IntArray:
        """Rows of the promises that the other one keeps more firmly, or breaks by less."""
        is_weaker = (self.grade > other.grade) | (self.end_s > other.end_s + SAME_TIME_S)
        weaker: IntArray = self.rows[is_weaker]
        return weaker


class Moves(NamedTuple):
    """What follows if some jobs go to other devices of the same number, all of them, and pause for that."""

    until_s: FloatArray  #: (n,) by when to ask again; -inf: one may not move
    memory: Memory  #: in place of the allocation's own


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """A policy's answer: rows are those of the snapshot."""

    options: Options  #: those of the snapshot
    option: IntArray  #: (J,) how each job is to run, one of its own options; NO_OPTION: it waits
    #: (J,) the part of its workers that a promise needs now; <= workers. Jobs with a promise have owned
    #: devices only: a policy that makes promises gives them no more than there are of those.
    floor: IntArray
    #: Row of an undecided job -> why not, perhaps worked out when it is asked for; the others are promised.
    #: A job of another class may be refused, too, as long as it has never had devices, and has no promise.
    refusals: Mapping[int, Refusal]
    wake_s: float  #: ask again then, if nothing happens before; inf: no need
    account: Account  #: reasons and estimates
    #: (J,) CPU share of each job's gang, in (0, 1]; NaN: none. None: this policy divides no cores.
    share: FloatArray | None = None
    is_sated: bool = False  #: no job could make use of more devices than it gets
    memory: Memory = field(default_factory=dict)  #: given back with the next snapshot, after a restart too
    #: Works out what follows if these rows (n,) move. None: all may, and nothing follows.
    moves: Callable[[IntArray], Moves] | None = None

    @cached_property
    def workers(self) -> IntArray:
        """(J,) 0: it waits."""
        return self.options.workers_of(self.option)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Which devices."""

    #: Job id -> its devices, in rank order, of jobs that are to have others than they hold; empty: none.
    changes: Mapping[str, tuple[str, ...]]
    moved: frozenset[str] = frozenset()  #: jobs that were moved to make room for another
    unplaced: frozenset[str] = frozenset()  #: jobs for which there is not enough


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What one job should have. No devices: it should wait."""

    target: Target
    why: Callable[[], str]  #: worked out when asked for
    #: Seconds that the change to this target saves a running job, its cost not taken off; None: not known.
    saved_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Allocation and placement and a reason for every job of the snapshot, placed or not."""

    job_ids: tuple[str, ...]  #: (J,)
    changes: Mapping[str, JobPlan]  #: job id -> what it should have, where that is not what it holds
    refusals: Mapping[int, Refusal]  #: row -> why not
    undecided: IntArray  #: rows of the strict jobs that are promised their deadlines now, or refused
    account: Account  #: why each job has what it gets, and when it will end
    wake_s: float
    makes_promises: bool  #: strict jobs that were not refused have been promised their deadlines
    is_short: bool  #: a promise needs more workers now than its job has
    revisit: frozenset[str]  #: jobs whose gang could not change now, and would have
    is_sated: bool  #: no job could make use of more devices than it gets
    has_options: bool  #: some job could run: there is something to decide
    forecast: Callable[[], PlanForecast | None]  #: what comes of it if the policy is followed; None: too long
    memory: Memory = field(default_factory=dict)  #: of the policy, for its next decision
