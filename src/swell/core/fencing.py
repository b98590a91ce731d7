"""Reports about what is no more: an executor may tell a thing twice, or too late."""

from __future__ import annotations

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
        case events.NodeWarned(name=name):
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
