"""What is kept from one plan to the next: what the last one left open, and the memory of the policy.

A plan is followed until something happens that it did not expect.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from swell.model.event import PlanFailed
from swell.model.plan import JobPlan, Plan
from swell.model.snapshot import Memory, plain_memory
from swell.model.target import NOTHING, Target

#: After an error another plan is tried so much later.
RETRY_S = 10.0


class WaitingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A `JobPlan` that waits for devices which others have yet to leave."""

    reason: str
    saved_s: float | None = None
    target: Target = NOTHING

    @classmethod
    def of(cls, plan: JobPlan) -> WaitingPlan:
        return cls(target=plan.target, reason=plan.why(), saved_s=plan.saved_s)

    def plan(self) -> JobPlan:
        return JobPlan(target=self.target, why=lambda: self.reason, saved_s=self.saved_s)


class LastPlan(msgspec.Struct, kw_only=True, dict=True):
    """Before the first one nothing is open, and everything is news."""

    made_s: float = 0.0
    owed: dict[str, WaitingPlan] = {}  #: as `waiting`, when it was last written down
    revisit: tuple[str, ...] = ()  #: jobs that are to change, and could not yet, by id
    is_sated: bool = False  #: more devices would be of no use to anybody
    is_overtaken: bool = False  #: by reports of a speed that it did not expect, too soon for another plan
    num_failed: int = 0  #: plans since, that ended in an error in a row
    failed: PlanFailed | None = None  #: the latest of them

    def __post_init__(self) -> None:
        #: What jobs are to have as soon as others have left it; reasons are worked out when they are read.
        self.waiting = {job_id: owed.plan() for job_id, owed in self.owed.items()}

    def write_down(self) -> None:
        """Store the waiting plans in `owed` as plain values, for a fold of the journal."""
        self.owed = {job_id: WaitingPlan.of(plan) for job_id, plan in self.waiting.items()}

    def begin(self, now_s: float) -> None:
        """Another one is being made."""
        self.made_s, self.is_overtaken = now_s, False
        self.num_failed, self.failed = 0, None

    def fail(self, failed: PlanFailed) -> None:
        """Note that another plan could not be made: this one is followed for a while."""
        self.num_failed, self.failed = self.num_failed + 1, failed

    @property
    def retry_s(self) -> float:
        """When another plan is tried, after an error; -inf: whenever it is due."""
        return -math.inf if self.failed is None else self.failed.at_s + RETRY_S

    def note(self, plan: Plan) -> None:
        """This is the one that is followed now."""
        self.revisit, self.is_sated = tuple(sorted(plan.revisit)), plan.is_sated


class InvalidMemory(TypeError):
    """A policy wants to remember what would not be the same after a restart; the text names it."""


class PolicyState(msgspec.Struct, kw_only=True, dict=True):
    """State of the policy that decides now; another policy begins with an empty one."""

    name: str = ""
    memory: dict[str, Any] = {}
    due_s: float = -math.inf  #: when its next period begins
    now_s: float = -math.inf

    def __post_init__(self) -> None:
        self._is_checked = False  #: a memory of this policy

    @property
    def is_due(self) -> bool:
        return self.now_s >= self.due_s

    def begin(self, name: str, now_s: float) -> None:
        """This one is asked now."""
        if name != self.name:
            self.name, self.memory, self.due_s, self._is_checked = name, {}, -math.inf, False
        self.now_s = now_s

    def end(self, memory: Memory, period_s: float) -> None:
        """It has answered. Periods begin at whole multiples of their length.

        The memory is kept as it is, and written down by `written`. The first one is looked at here, so that
        who writes a policy hears of a mistake at once.

        Raises:
            InvalidMemory: it holds what JSON cannot, or gives back as something else.
        """
        if memory and not self._is_checked:
            _as_kept(self.name, memory)
            self._is_checked = True
        self.memory = dict(memory)
        if self.is_due:
            self.due_s = math.inf if math.isinf(period_s) else (self.now_s // period_s + 1) * period_s

    def written(self) -> PolicyState:
        """The same with plain values, for a fold. Raises InvalidMemory."""
        return msgspec.structs.replace(self, memory=_as_kept(self.name, self.memory))


def _as_kept(policy: str, memory: Memory) -> dict[str, Any]:
    """A copy by way of JSON, as a fold would give it back. Raises InvalidMemory."""
    remedy = "use words as keys, and plain numbers, words, lists and mappings as values"
    plain = plain_memory(memory)
    try:
        kept: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain))
    except (TypeError, ValueError) as error:
        raise InvalidMemory(f"the memory of policy {policy!r} cannot be kept ({error}); {remedy}") from error
    for name, value in plain.items():
        if kept.get(name) != value:
            raise InvalidMemory(
                f"the memory of policy {policy!r} would be another one after a restart: {name!r} holds "
                f"{value!r}, and JSON gives back {kept.get(name)!r}; {remedy}"
            )
    return kept
