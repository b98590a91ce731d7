"""Which events are news, and whether a batch says what the last plan did not expect.

An executor may tell a thing twice, or too late: such a report is about what is no more."""

from __future__ import annotations

from enum import Enum

from swell.core.progress import JobProgress
from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model import event as events


def is_stale(state: HeadState, event: events.Event) -> bool:
    """Whether the event is about what is no more. Such a report is counted, and that is all."""
    if not isinstance(event, events.JobEvent):
        return _is_history_of_node(state, event)
    record = state.records.get(event.job_id)
    if isinstance(event, events.JobSubmitted):
        return record is not None
    return record is None or _is_history(record, event)


def _is_history_of_node(state: HeadState, event: events.Event) -> bool:
    """A new controller tells of each node that is there: that must not end a warning."""
    match event:
        case events.NodeWarned(name=name) | events.NodeTested(name=name):
            return name not in state.away and not state.cluster.has_node(name)
        case events.NodeCleared(name=name, why=why):
            causes = [cause.why for cause in state.warned.get(name, ())]
            return not causes or (bool(why) and why not in causes)
        case events.NodeJoined(node=node):
            return node.name in state.warned and node in state.cluster.nodes
    return False


def _is_history(record: JobRecord, event: events.JobEvent) -> bool:
    """Whether the event is about a gang, or a question, that is no more."""
    if record.phase.is_end:
        return True
    if isinstance(event, events.GangEvent):  # most are
        return _is_stale_report(record, event)
    if isinstance(event, events.JobProfiled | events.TrialQueued | events.ProfilingFailed):
        return not record.is_profiling or event.attempt != record.backoff.num_trials
    if isinstance(event, events.CancelRequested | events.DeadlineChangeAsked):
        return record.is_cancelled
    if isinstance(event, events.HoldRequested | events.ResumeRequested):
        is_so = record.is_held if isinstance(event, events.HoldRequested) else not record.is_set_aside
        return record.is_cancelled or is_so
    if isinstance(event, events.PredecessorsSucceeded):
        return record.is_cancelled or not record.awaits
    if isinstance(event, events.ScriptDistributed):
        return record.is_distributed or not record.spec.grows_when_distributed
    if isinstance(event, events.DifferencesAccepted):
        return set(record.accepted).issuperset(event.names)
    if isinstance(event, events.PriorityChanged):
        return event.priority in (None, record.spec.priority) and event.weight in (None, record.spec.weight)
    return False


def _is_stale_report(record: JobRecord, event: events.GangEvent) -> bool:
    """Answers carry the generation of the command; other reports that or the one that trains."""
    if not record.phase.holds_devices:
        return True
    is_answer = event.generation == record.generation
    if isinstance(event, events.GangStarted):
        return not (is_answer and record.gang.is_launching)
    if record.gang.is_launching:  # it comes up whole, or ends; the generation before it is history
        return not (is_answer and isinstance(event, events.GangEnded))
    if isinstance(event, events.GangResized | events.ResizeFailed):
        return not (is_answer and record.gang.awaits_change)
    if isinstance(event, events.SuspendFailed):
        return not (is_answer and record.gang.is_saving)
    if isinstance(
        event, events.WorkersLost
    ):  # losses in a row are told while repairs of earlier ones are on their way
        is_of_now = record.gang.generation <= event.generation <= record.generation
        is_told_again = (event.generation, event.devices) in record.gang.losses
        return is_told_again or not (is_of_now and set(event.devices).intersection(record.gang.held))
    if isinstance(event, events.StepsReported) and _is_told_again(record, event):
        return True
    return event.generation not in (record.gang.generation, record.generation)


def _is_told_again(record: JobRecord, event: events.StepsReported) -> bool:
    """An executor repeats what it does not know to be in the journal."""
    last = record.progress.reported
    if last is None or event.generation != last.generation:
        return False
    return event.at_s <= last.at_s and event.steps <= last.steps


#: A job is not where it was believed to be if it is off by this share of what remains, or so much faster or
#: slower; but a step more or less is nothing.
SURPRISE_SHARE = 1e-3
#: After these a job is over.
ENDS = (events.Outcome.SUCCEEDED, events.Outcome.ENDED_EARLY, events.Outcome.FAILED)


class Need(Enum):
    """What follows from a batch."""

    NOTHING = "nothing"
    GO_ON = "go on"  #: something is done: what waits for it can follow, as the last plan has it
    PLAN = "plan"  #: something is not as the last plan expected


class Replan:
    """Whether a batch needs a new plan: hears each event before it is applied, and is asked once all are.

    JobProgress as believed needs none, nor does a change that is done as it was planned. If no job could use
    more devices, and no quota keeps one from them, those of a job that ends are no news either. A job that
    goes at another speed than believed, or is elsewhere, needs one, but only now and then: other jobs will
    surprise, too.

    Args:
        least_s: between two plans for the sake of progress alone.
    """

    def __init__(self, state: HeadState, least_s: float) -> None:
        self._state = state
        self._least_s = least_s
        self._is_any_done = False
        self._is_any_surprise = False
        self._tells_rate = False  #: the latest report does
        self._is_any_news = False
        self._told: list[str] = []  #: jobs about which something else was said
        self._belief: tuple[JobProgress, float, float] | None = None  #: of the latest report, before it
        self._unmeasured: JobRecord | None = None  #: whose report is being heard, and has no value so far
        self._known: tuple[str, int] | None = None  #: likewise, had no trial run, and sizes that are known

    def hear(self, event: events.AnyEvent) -> None:
        """An event that is not stale, before it is applied."""
        self._belief = self._unmeasured = self._known = None
        if not isinstance(event, events.JobEvent):
            self._is_any_news = True
            return
        record = self._state.records.get(event.job_id)  # None for a job that is submitted just now
        if isinstance(event, events.StepsReported) and record is not None:
            self._hear_steps(event, record)
        elif self._is_as_planned(event, record):
            self._is_any_done = True
        elif not isinstance(event, events.JobWarned | events.JobLinked):
            self._told.append(event.job_id)
            # The next try of a lost trial run is a time to wake up at, and such times are the plan's.
            is_lost_trial = isinstance(event, events.ProfilingFailed) and event.outcome is events.Outcome.LOST
            self._is_any_news |= is_lost_trial or self._state.concerns_plans(record)

    def _hear_steps(self, report: events.StepsReported, record: JobRecord) -> None:
        self._unmeasured = record if record.usage.value is None else None
        is_untried, known = record.spec.starts_silently, self._state.belief.of(record.id).num_known
        self._known = (record.id, known) if is_untried else None
        if report.brings_steps:
            progress = record.progress
            self._belief = (progress, progress.believed_steps(report.at_s), progress.rate_per_s)
            self._tells_rate = report.step_s is not None or report.between is not None

    def note_devices(self) -> None:
        """Devices are, or are no more, held by a gang that the journal does not explain."""
        self._belief = self._unmeasured = self._known = None
        self._is_any_news = True

    def compare(self) -> None:
        """The event has been applied: is anything as it was not believed to be?

        The first value of a job is what later ones are compared with where its learning counts.
        """
        is_told = self._state.domain.is_told_learning(self._state.usable.is_crowded)
        if is_told and self._unmeasured is not None:
            self._is_any_news |= self._unmeasured.usage.value is not None
        if self._known is not None:
            job_id, num_known = self._known
            self._is_any_news |= self._state.belief.of(job_id).num_known > num_known
        if self._belief is not None and _is_surprise(*self._belief):
            self._is_any_surprise = True
            self._state.last_plan.is_overtaken |= self._tells_rate

    def _is_as_planned(self, event: events.JobEvent, record: JobRecord | None) -> bool:
        """The end of a change over which no work was lost, or of a job whose devices are of no use."""
        if self._state.has_devices_to_leave:
            return False
        if isinstance(event, events.GangEnded):
            # A quota keeps jobs from devices that they could use: others of the tenant may have these now.
            is_sated = self._state.last_plan.is_sated and not self._state.quotas
            is_counted = record is None or not record.is_apart  # others' devices do not count in plans
            return is_sated and event.outcome in ENDS and is_counted
        if not isinstance(event, events.GangStarted | events.GangResized):
            return False
        if record is None or event.job_id in self._state.last_plan.revisit:
            return False
        return not record.spec.counts_steps or event.steps >= int(record.progress.done_steps)

    def need(self) -> Need:
        """Before rows of jobs that have ended are removed."""
        state, last = self._state, self._state.last_plan
        if self._is_any_news or any(state.concerns_plans(state.records.get(one)) for one in self._told):
            return Need.PLAN
        is_overtaken = self._is_any_surprise or last.is_overtaken
        if is_overtaken and state.now_s - last.made_s >= self._least_s:
            return Need.PLAN
        return Need.GO_ON if self._is_any_done else Need.NOTHING


def _is_surprise(progress: JobProgress, believed: float, rate_per_s: float) -> bool:
    off = abs(progress.counted_steps - believed)
    remaining = (progress.total_steps or 0.0) - progress.done_steps
    is_elsewhere = off > max(1.0, SURPRISE_SHARE * remaining)
    return is_elsewhere or abs(progress.rate_per_s - rate_per_s) > SURPRISE_SHARE * rate_per_s
