"""What the latest plan says of each job: written down when asked for, since most of it is never read.

The words are the policy's, or else those of steadiness and of the placer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, cast

import msgspec
import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.core.accounts import is_beyond_quota
from swell.core.hysteresis import GAIN_OVER_COST, KeptSizes
from swell.core.record import JobRecord
from swell.model.cluster import Cluster
from swell.model.deadline_state import NOWHERE, is_measured
from swell.model.plan import Allocation, Placement, Plan, PlanForecast
from swell.model.quantities import relative, span, told_devices, told_workers
from swell.model.snapshot import Snapshot
from swell.model.target import Configuration
from swell.model.view import JobView, is_set_aside

#: Codes of reasons to which it is added whose jobs have devices.
OWNERS_TOLD = ("waiting", "sharing", "boosted", "quota")
#: Begins the part of a reason that a line of a story leaves out, as it is not renewed.
EXPECTED_START = "; expected to start"
#: Until a job's trial run is over, its finish is guessed: a minute from now, or its deadline.
FIRST_GUESS_S = 60.0


@dataclass(frozen=True)
class PlanEstimate:
    """Reasons and estimates of one plan; any thread may ask, and the answer is always the same."""

    plan: Plan
    snapshot: Snapshot  #: that it was made of

    @cached_property
    def _followed(self) -> PlanForecast | None:
        return self.plan.forecast()

    @cached_property
    def of_policy(self) -> PlanEstimate:
        """The same plan with the ends that the policy expects: a fold asks the policy nothing."""
        return PlanEstimate(replace(self.plan, forecast=lambda: None), self.snapshot)

    @cached_property
    def _forecast(self) -> PlanForecast:
        return self._followed or self.plan.account.forecast

    def row(self, job_id: str) -> int | None:
        """None: the plan was made without this job."""
        return self.snapshot.row_of.get(job_id)

    def finish_s(self, row: int, up_s: float | None) -> float | None:
        """The plan's estimate; of a job whose gang has started since, as much later as that was late.

        Args:
            up_s: when it had; None: it has not, or had before.

        Returns:
            None: no end can be named.
        """
        finish_s = float(self._forecast.finish_s[row])
        if finish_s == math.inf:
            return None
        return finish_s if up_s is None else moved_s(finish_s, self.begins_s(row), up_s)

    def begins_s(self, row: int) -> float:
        """When a gang that is to start, or starts, is expected to have started."""
        snapshot = self.snapshot
        if snapshot.held_workers[row] == 0:
            return snapshot.now_s + float(snapshot.start_cost_s[row])
        return snapshot.now_s + (0.0 if self._followed is None else float(snapshot.idle_s[row]))

    def reason(self, row: int) -> str:
        """Why the job has what it has, and when it is expected to start, if it waits for others."""
        account = self.plan.account
        in_s = float(self._forecast.start_s[row]) - self.snapshot.now_s
        is_expected = account.codes[row] == "waiting" and in_s > 0.0
        return account.text(row) + (f"{EXPECTED_START} {relative(in_s)}" if is_expected else "")


class ToldJob(NamedTuple):
    """An open job, and what is said of it beside its view."""

    view: JobView  #: without what the plan says of it
    outlook: PlanEstimate | None
    is_explained: bool = False  #: why it has what it has was said since the plan
    up_s: float | None = None  #: when its gang has started since the plan

    @property
    def planned_s(self) -> float | None:
        """When it ends by the plan. None: no plan tells an end."""
        row = None if self.outlook is None else self.outlook.row(self.view.id)
        if self.outlook is None or row is None:
            return self.view.estimated_finish_s
        return self.outlook.finish_s(row, self.up_s)

    def complete(self, now_s: float) -> JobView:
        """The view with what the plan says of it, or with a first guess of its finish."""
        view, outlook = self.view, self.outlook
        row = None if outlook is None else outlook.row(view.id)
        if outlook is not None and row is not None:
            reason = view.reason if self.is_explained else outlook.reason(row)
            finish_s = outlook.finish_s(row, self.up_s)
            view = msgspec.structs.replace(view, estimated_finish_s=finish_s, reason=reason)
        fixed, end_s = view.fixed, view.estimated_finish_s
        if fixed is None:
            return _guessed(view, now_s)
        in_s = (end_s or 0.0) - min(fixed.time_s, view.estimate_s or fixed.time_s) - now_s
        starts = f"{EXPECTED_START} {relative(in_s)}" if in_s > 0.0 else ""
        return msgspec.structs.replace(view, reason=view.reason + starts)


class TurnChanges(NamedTuple):
    """What became of open jobs of one kind of device in a turn."""

    now_s: float
    jobs: list[ToldJob]  #: those that changed
    outlook: PlanEstimate | None
    kind: str = ""


class PendingAccount:
    """Reasons and estimates that are yet to be written into the records.

    They depend on what the plan was made of, and not on when they are asked for.
    """

    def __init__(self, outlook: PlanEstimate | None = None) -> None:
        self.outlook = outlook
        self._explained: dict[str, Callable[[], str] | None] = {}  #: and what writes why; None: it is written
        self._up_s: dict[str, float] = {}

    def note_explained(self, job_id: str, words: Callable[[], str] | None = None) -> None:
        """Since the plan was made, something else was said of why this job has what it has.

        Args:
            words: writes it when it is asked for; None: the record has it.
        """
        self._explained[job_id] = words

    def write_reason(self, record: JobRecord) -> None:
        """Bring the record's reason up to date, if it was explained since the plan was made."""
        words = self._explained.get(record.id)
        if words is not None:
            record.status.reason, self._explained[record.id] = words(), None

    def note_up(self, record: JobRecord, at_s: float) -> None:
        """Since the plan was made, this job's gang has started."""
        status = record.status
        if self.outlook is not None:
            self._up_s[record.id] = at_s
        elif status.estimated_finish_s is not None and status.begins_s is not None:
            # The plan was made before a restart of the daemon.
            status.estimated_finish_s = moved_s(status.estimated_finish_s, status.begins_s, at_s)

    def told(self, record: JobRecord) -> ToldJob:
        """An open job as it is now."""
        self.write_reason(record)
        is_explained = record.id in self._explained
        return ToldJob(record.view(), self.outlook, is_explained, self._up_s.get(record.id))

    def write(self, record: JobRecord) -> None:
        """Bring the record's reason and estimates up to date: the next plan may not know this job."""
        self.write_reason(record)
        outlook = None if self.outlook is None else self.outlook.of_policy
        row = None if outlook is None else outlook.row(record.id)
        if outlook is None or row is None:
            return
        record.status.estimated_finish_s = outlook.finish_s(row, self._up_s.get(record.id))
        record.status.begins_s = outlook.begins_s(row)
        if record.id not in self._explained:
            record.status.reason = outlook.reason(row)


def moved_s(finish_s: float, begins_s: float, up_s: float) -> float:
    """An estimated end, once the gang has started that was expected to have done so at `begins_s`."""
    return max(up_s, finish_s + up_s - begins_s)


def _guessed(view: JobView, now_s: float) -> JobView:
    """Return the view with a first guess of its finish if the job is open and no plan has included it yet."""
    if view.estimated_finish_s is not None or view.phase.is_end or is_set_aside(view) or is_measured(view):
        return view
    guess_s = view.deadline_s or view.submitted_s + FIRST_GUESS_S
    return msgspec.structs.replace(view, estimated_finish_s=max(guess_s, now_s))


Held = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a plan is made of, in addition to a snapshot and the policy's answer to it."""

    is_pinned: BoolArray  #: (J,) jobs whose gang cannot change now
    cluster: Cluster
    held: Held  #: job id -> devices of its gang, or of the gang under way; only jobs that have any
    configured: Mapping[str, Configuration]  #: how gangs run, or are about to, where that is not plain
    backing_off: Mapping[str, str]  #: why they are not launched now, of pinned jobs without a gang
    barred: Mapping[str, frozenset[str]]  #: job id -> names of the nodes that cannot run it
    nowhere: Mapping[str, str]  #: why, of jobs for which too few nodes are left
    slow: frozenset[str] = frozenset()  #: devices that jobs get last
    reserved: str = ""  #: who has devices for which no policy plans, as a clause


@dataclass(frozen=True)
class PlanAccount:
    """The policy's words, or else those of steadiness and of the placer; see `model.plan.Account`."""

    snapshot: Snapshot
    allocation: Allocation
    steadied: KeptSizes
    placement: Placement
    standing: Standing

    @cached_property
    def codes(self) -> Sequence[str]:
        snapshot, workers = self.snapshot, self.steadied.workers
        codes, is_other = list(self.allocation.account.codes), workers != self.allocation.workers
        for row in self.allocation.refusals:
            codes[row] = "refused"
        for row in is_other.nonzero()[0].tolist():
            codes[row] = "kept" if workers[row] else "waiting"
        for row in map(snapshot.row_of.__getitem__, self.standing.backing_off):
            if is_other[row]:
                codes[row] = "backoff"
        for row in map(snapshot.row_of.__getitem__, self.placement.moved):
            if self.allocation.workers[row] == snapshot.held_workers[row]:
                codes[row] = "moved"
        for row in self._waits_for_quota.nonzero()[0].tolist():
            codes[row] = "quota"
        for job_id in self.standing.nowhere:
            codes[snapshot.row_of[job_id]] = NOWHERE
        return codes

    @property
    def forecast(self) -> PlanForecast:
        return self.allocation.account.forecast

    def text(self, row: int) -> str:
        """The reason, and whose jobs have devices instead."""
        text, workers = self._text(row), int(self.steadied.workers[row])
        if self.codes[row] not in OWNERS_TOLD or self.snapshot.needs_owned[row]:
            return text
        if workers and is_beyond_quota(self.snapshot, self.steadied.workers)[row]:
            return f"{text}; beyond its tenant's quota, until other jobs need the devices"
        told = [self._account_before(row)] if not workers else []
        told += [self.standing.reserved] if workers < max(int(self.snapshot.held_workers[row]), 1) else []
        return "; ".join([text, *filter(None, told)])

    def _account_before(self, row: int) -> str:
        """The account with devices that has used least, if that is less than the job's account has used."""
        fair = self.snapshot.fair
        if fair is None:
            return ""
        is_before = (self.steadied.workers > 0) & (fair.level[fair.account] < fair.level[fair.account[row]])
        before = fair.account[is_before]
        return f"after {fair.told(int(min(before, key=fair.level.__getitem__)))}" if len(before) else ""

    def _text(self, row: int) -> str:
        job_id, want = self.snapshot.job_ids[row], int(self.allocation.workers[row])
        match self.codes[row]:
            case "refused":
                return f"refused: {self.allocation.refusals[row].text}"
            case "moved":
                return "moves to another node to make room for another job"
            case "quota":
                return self._why_quota(row)
            case "kept":
                return self._why_held(row, want)
            case "waiting" if self.steadied.workers[row] != want:
                return f"waiting for {told_workers(want)}: the devices are busy"
            case "backoff":
                return self.standing.backing_off[job_id]
            case code if code == NOWHERE:
                return self.standing.nowhere[job_id]
        try:
            return self.allocation.account.text(row)
        except Exception as error:  # noqa: BLE001 - it stands where the words would
            return f"the policy has no words for it: {error!r}"

    @cached_property
    def _waits_for_quota(self) -> BoolArray:
        """(J,) jobs without devices or a promise, whose smallest size is more than a quota leaves."""
        snapshot, options = self.snapshot, self.snapshot.options
        if snapshot.quota_devices is None:
            return np.zeros(snapshot.num_jobs, dtype=bool)
        taken = snapshot.devices_of_tenants(self.steadied.workers)
        left = (snapshot.quota_devices - taken)[snapshot.tenant]
        smallest = np.zeros(snapshot.num_jobs, dtype=np.int64)
        has_option = options.num > 0
        smallest[has_option] = options.devices[options.starts[:-1][has_option]]
        is_limited = snapshot.quota_devices[snapshot.tenant] < snapshot.num_devices
        waits: BoolArray = (
            is_limited & (self.steadied.workers == 0) & ~snapshot.is_promised & (smallest > left)
        )
        waits[list(self.allocation.refusals)] = False
        waits[[snapshot.row_of[job_id] for job_id in self.standing.backing_off]] = False
        return waits

    def _why_quota(self, row: int) -> str:
        snapshot = self.snapshot
        quota = int(cast(IntArray, snapshot.quota_devices)[snapshot.tenant[row]])
        taken = int(snapshot.devices_of_tenants(self.steadied.workers)[snapshot.tenant[row]])
        smallest = int(snapshot.options.devices[snapshot.options.starts[row]])
        others = f"its tenant's quota is {told_devices(quota)}, of which other jobs have {taken}"
        return f"waits: {others}; it needs {smallest}"

    def _why_held(self, row: int, want: int) -> str:
        workers, held = int(self.steadied.workers[row]), int(self.snapshot.held_workers[row])
        if workers != held:
            return f"gets {told_workers(workers)} of {want}: other jobs still use the remaining devices"
        return f"keeps {told_workers(held)}: {self._why_unchanged(row, want)}"

    def _why_unchanged(self, row: int, want: int) -> str:
        """Why the job has no other size yet: the first cause in the order of `steady`."""
        snapshot, held = self.snapshot, int(self.snapshot.held_workers[row])
        saves_s, cost_s = float(self.steadied.gain_s[row]), float(snapshot.growth_cost_s[row])
        left_s = float(snapshot.remaining_steps[row]) / max(float(snapshot.held_rate_per_s[row]), 1e-12)
        if snapshot.is_pinned[row]:
            return "a change of its workers is under way"
        if self.allocation.floor[row] <= held:
            if left_s <= snapshot.start_cost_s[row]:
                return f"ends in {span(left_s)}, before a change would pay"
            if snapshot.now_s < snapshot.changed_s[row] + snapshot.min_hold_s:
                ago, change = span(snapshot.min_hold_s), "grow" if want > held else "shrink"
                return f"resized less than {ago} ago; may {change} to {want} later if that pays"
            if want < held:
                return "no other job needs the devices now"
            if saves_s <= GAIN_OVER_COST * cost_s:
                saves = f"growing to {want} would save {span(max(saves_s, 0.0))}"
                return f"{saves}, less than {GAIN_OVER_COST:g} times the {span(cost_s)} that a growth costs"
        devices = self.steadied.workers * snapshot.devices_per_worker
        devices[row] = 0
        most = f"; {snapshot.job_ids[int(devices.argmax())]} has the most" if devices.any() else ""
        return f"no free devices to grow to {want}{most}"
