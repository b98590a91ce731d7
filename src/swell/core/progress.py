"""How far one job is, advanced when somebody looks and corrected by reports; its sizes; and its resizes.

Resizes are expected when they are decided, and measured since. What a size brought is measured from reports
alone: the steps made since the last report at the old size would have taken the old size so long, and took
so long. That includes the pause, and what training was slowed down by while joiners started.
"""

from __future__ import annotations

import msgspec

from swell.model.event import StepsReported
from swell.model.resize import CostKind, Resize, Verdict

#: Resizes of a job that are remembered one by one; the totals count all.
NUM_KEPT = 20
#: Fields of a resize that are those of the change.
AS_COMMANDED = ("at_s", "before", "after", "reason_code", "reason", "expected_cost_s", "expected_gain_s")
#: Each time that workers are taken, what was before counts for so much: the last few times matter.
MEMORY_SHARE = 0.8


class Mark(msgspec.Struct, frozen=True):
    """How far a job was, and when."""

    at_s: float
    steps: float


class Change(msgspec.Struct, kw_only=True):
    """A resize that is under way, or whose size is held."""

    generation: int
    at_s: float
    before: int
    after: int
    is_repair: bool  #: workers were lost: it was not asked whether it would pay
    is_restart: bool  #: every process stops and starts: none trains until the first report
    reason_code: str
    reason: str
    expected_cost_s: float | None
    expected_gain_s: float | None
    base: Mark | None  #: the last that is known of the old size; None: the job reports nothing
    rate_before_per_s: float = 0.0  #: steps/s, as those reported since; 0: not known in steps
    answered_s: float | None = None
    pause_s: float | None = None  #: time in which no worker trained
    first: Mark | None = None  #: reports at the new size
    last: Mark | None = None

    @property
    def kind(self) -> CostKind:
        """What it is measured as: a change that only moves workers sends the state, as a growth does."""
        return "shrink" if self.after < self.before else "growth"

    @property
    def gain_s(self) -> float | None:
        if self.base is None or self.last is None or self.rate_before_per_s <= 0:
            return None
        would_take_s = (self.last.steps - self.base.steps) / self.rate_before_per_s
        return would_take_s - (self.last.at_s - self.base.at_s)

    @property
    def rate_after_per_s(self) -> float | None:
        if self.first is None or self.last is None or self.last.at_s <= self.first.at_s:
            return None
        return (self.last.steps - self.first.steps) / (self.last.at_s - self.first.at_s)

    def is_about(self, report: StepsReported) -> bool:
        """A gang that shrank may report before its former workers are gone, and so under its old number."""
        is_early = self.after == report.num_workers != self.before
        return report.generation == self.generation or (self.answered_s is None and is_early)

    def told(self, verdict: Verdict, until_s: float, is_held: bool = False) -> Resize:
        """Return the resize as users see it, with what has been measured so far."""
        answered_s = self.answered_s
        return Resize(
            **{name: getattr(self, name) for name in AS_COMMANDED},
            verdict=verdict,
            wait_s=None if answered_s is None else answered_s - self.at_s,
            cost_s=self.pause_s,
            gain_s=self.gain_s,
            held_s=0.0 if answered_s is None else max(0.0, until_s - answered_s),
            is_held=is_held,
            rate_before_per_s=self.rate_before_per_s or None,
            rate_after_per_s=self.rate_after_per_s,
        )

    def verdict(self) -> Verdict:
        if self.is_repair:
            return Verdict.REPAIRED
        if self.after <= self.before:
            return Verdict.MOVED if self.after == self.before else Verdict.MADE_ROOM
        if self.gain_s is None:
            return Verdict.UNKNOWN
        return Verdict.PAID if self.gain_s > 0 else Verdict.UNPAID


class ResizeLog(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Resizes of one job: at most one under way, at most one whose size is held, and the latest others."""

    under_way: Change | None = None
    held: Change | None = None
    past: tuple[Resize, ...] = ()
    saved_s: float = 0.0  #: by growths whose size was given up since
    broken_from: int = 0  #: workers before some were lost; 0 while nothing is broken
    num_done: int = 0
    pause_s: float = 0.0  #: that all of them together took from training

    def note_steps(self, at_s: float, steps: float) -> None:
        """The size that is held is about to be given up, at so many steps; reports may have told of fewer."""
        held = self.held
        if held is not None and (held.last is None or steps > held.last.steps):
            held.last = Mark(at_s, steps)

    def answer(self, at_s: float) -> Change | None:
        """What was commanded is so: the size before is given up. None if it was not known here."""
        self._give_up(at_s)
        change, self.under_way, self.broken_from = self.under_way, None, 0
        if change is None:
            return None
        self.held, change.answered_s = change, at_s
        if change.is_restart and change.base is None:
            change.pause_s = at_s - change.at_s
        return change

    def call_off(self, at_s: float, verdict: Verdict = Verdict.FAILED) -> None:
        """What was commanded will never be."""
        if self.under_way is not None:
            self._keep(self.under_way.told(verdict, at_s))
            self.under_way = None

    def lose(self, at_s: float, num_workers: int = 0) -> None:
        """Some of so many workers are gone, or all, and with them the size and what was commanded."""
        self.call_off(at_s)
        self._give_up(at_s)
        self.broken_from = (self.broken_from or num_workers) if num_workers else 0

    def _give_up(self, at_s: float) -> None:
        """The size that was held is no more."""
        if self.held is not None:
            told = self.held.told(self.held.verdict(), at_s)
            self._keep(told)
            self.saved_s += _saved_s(told)
            self.held = None

    def note_report(self, report: StepsReported, again_s: float) -> Change | None:
        """Take from a report what it tells of a change; returns the one whose pause is known now, if any."""
        changes = [change for change in (self.under_way, self.held) if change is not None]
        change = next((change for change in changes if change.is_about(report)), None)
        if change is None:
            return None
        if report.num_workers == change.after:
            change.last = Mark(report.at_s, float(report.steps))
            change.first = change.first or change.last
        pause_s = report.at_s - change.at_s + again_s if change.is_restart else report.pause_s
        if pause_s is None or change.pause_s is not None:
            return None
        change.pause_s = pause_s
        return change

    def told(self, now_s: float) -> tuple[Resize, ...]:
        """The latest ones, oldest first, the one that is under way too."""
        current = []
        if self.held is not None:
            current.append(self.held.told(self.held.verdict(), now_s, is_held=True))
        if self.under_way is not None:
            current.append(self.under_way.told(Verdict.UNDER_WAY, now_s))
        return _latest((*self.past, *current))

    @property
    def total_saved_s(self) -> float:
        """Seconds saved by all growths so far, each compared with the size before it, less what they cost."""
        held = self.held
        return self.saved_s + (0.0 if held is None else _saved_s(held.told(held.verdict(), 0.0)))

    def _keep(self, told: Resize) -> None:
        self.past = _latest((*self.past, told))


def _latest(told: tuple[Resize, ...]) -> tuple[Resize, ...]:
    """One that failed is over before the one whose size is held through it."""
    return tuple(sorted(told, key=lambda entry: entry.at_s))[-NUM_KEPT:]


def _saved_s(told: Resize) -> float:
    is_growth = told.verdict in (Verdict.PAID, Verdict.UNPAID)
    return told.gain_s if is_growth and told.gain_s is not None else 0.0


class LastReport(msgspec.Struct, frozen=True, kw_only=True):
    """What counts of a progress report of a gang."""

    at_s: float
    steps: int
    generation: int
    num_workers: int


class JobProgress(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """`done_steps` were finished at `as_of_s`; since then the job goes at `rate_per_s`, unless it pauses."""

    total_steps: float | None = None  #: None: not known yet
    done_steps: float = 0.0
    as_of_s: float = 0.0
    rate_per_s: float = 0.0
    attained_device_s: float = 0.0
    phase_s: float = 0.0  #: what the ends of the epoch under way and of the job will take of the steps so far
    #: Since when it does no work, for its gang has changed and has not reported since; None: it works.
    paused_since_s: float | None = None
    pauses: tuple[int, ...] = ()  #: workers after each change since then: they are waited out one by one
    first_step: int = 0  #: that the gang began to train with
    reported: LastReport | None = None
    #: When a gang that has not said how long a step takes began to train at its size, and where.
    unmeasured: Mark | None = None
    first_reported: LastReport | None = None  #: of the gang that made the report above, at its size
    phase_rate_per_s: float = 0.0  #: steps/s of the gang that `phase_s` was last told of

    def advance(self, at_s: float, num_devices: int) -> float:
        """Account for the time since `as_of_s`, spent on so many devices; returns its seconds."""
        elapsed_s = max(0.0, at_s - self.as_of_s)
        if self.paused_since_s is None:
            self.done_steps += elapsed_s * self.rate_per_s
        self.attained_device_s += elapsed_s * num_devices
        self.as_of_s = max(self.as_of_s, at_s)
        return elapsed_s

    @property
    def counted_steps(self) -> float:
        """What plans count as done at `as_of_s`.

        The rate spreads the time between two epochs, and that of the script's last lines, evenly over the
        steps, and it comes all at the end of an epoch, or of the job. So a job is less far than its steps
        say, the more so the nearer that end is. A job without a gang is as far as its last gang was.
        """
        return self.done_steps - self.phase_s * (self.rate_per_s or self.phase_rate_per_s)

    def pause(self, at_s: float, num_workers: int) -> None:
        """It has changed to so many workers, and does no work until it reports."""
        self.paused_since_s = at_s if self.paused_since_s is None else self.paused_since_s
        self.pauses = (*self.pauses, num_workers)

    def resume(self) -> None:
        """It works, or has no gang that could."""
        self.paused_since_s, self.pauses = None, ()

    @property
    def rate_now_per_s(self) -> float:
        """Steps/s since `as_of_s`: none while it pauses."""
        return self.rate_per_s if self.paused_since_s is None else 0.0

    def believed_steps(self, at_s: float) -> float:
        """What plans count as done by then, if all goes on as it is believed to."""
        return self.counted_steps + self.rate_now_per_s * max(0.0, at_s - self.as_of_s)


class SizeHistory(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    changes: tuple[tuple[float, int], ...] = ()  #: (from when in head time, workers)
    most_workers: int = 0
    num_changes: int = 0  #: to another number of workers, since the first
    waits_from_s: float | None = None  #: since when it waits, or waited last; None: since its submission
    runs_from_s: float | None = None  #: since when it has workers; None: it has none

    @property
    def latest(self) -> int:
        """Workers since the latest change; 0 before the first."""
        return self.changes[-1][1] if self.changes else 0

    def note(self, at_s: float, num_workers: int) -> None:
        """It has so many from now on."""
        if not self.changes or self.changes[-1][1] != num_workers:
            self.num_changes += bool(self.changes) and num_workers > 0
            self.most_workers = max(self.most_workers, num_workers)
            self.changes += ((at_s, num_workers),)
            if not num_workers:
                self.waits_from_s, self.runs_from_s = at_s, None
            elif self.runs_from_s is None:
                self.runs_from_s = at_s


class HoldTime(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Time of training, and how often workers were taken in it, the more recent the more it counts.

    Their ratio is the most likely mean of times that end by chance, those that have not ended included.
    """

    since_s: float = 0.0  #: trained since workers were last taken
    before_s: float = 0.0  #: faded sum of such times before
    num_taken: float = 0.0  #: faded count

    @property
    def total_s(self) -> float:
        return self.since_s + self.before_s

    def train(self, elapsed_s: float) -> None:
        self.since_s += elapsed_s

    def take(self) -> None:
        """Some of the job's workers, or all, were given to others or lost."""
        self.before_s = MEMORY_SHARE * self.before_s + self.since_s
        self.num_taken = MEMORY_SHARE * self.num_taken + 1.0
        self.since_s = 0.0

    def add(self, ended: HoldTime) -> None:
        """Remember a job that has ended, and those before it a little less."""
        self.before_s = MEMORY_SHARE * self.before_s + ended.total_s
        self.num_taken = MEMORY_SHARE * self.num_taken + ended.num_taken
