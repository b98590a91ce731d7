"""What each event means for the job it is about. One function an event; all decisions are elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import get_type_hints

import msgspec

from swell.core.deadlines import befall, befall_all, follow, note_slowness, told_late
from swell.core.feedback import (
    learn_between,
    learn_first_step,
    learn_pause,
    learn_rate,
    learn_resize,
    learn_start,
    learn_stretch,
    note_phase,
)
from swell.core.fixed_events import OF_FIXED_JOBS
from swell.core.gang import NO_GANG, UnknownGang, UnknownGangEvent
from swell.core.node_failures import note_failure
from swell.core.progress import JobProgress, Mark
from swell.core.record import MOST_LINKS, AskedDeadline, JobRecord
from swell.core.setbacks import MAX_SETBACKS
from swell.core.slow_devices import forget_node, note_sample_times
from swell.core.state import HeadState
from swell.model import event as events
from swell.model.failure import failure_sentence
from swell.model.job import LOSS, Elasticity, JobClass, Phase
from swell.model.quantities import format_bytes, relative, span, told_workers
from swell.model.resize import Verdict
from swell.model.usage import UNTESTED
from swell.script_facts import ScriptFinding

#: A trial run that took less was none: the job had been measured before.
LEAST_TRIAL_S = 0.1


def apply(state: HeadState, event: events.Event) -> None:
    """Change the state as the event, which is not stale, says."""
    state.now_s = max(state.now_s, event.at_s)
    if state.unknown.concerns(event):
        _apply_to_unknown(event, state)
    elif isinstance(event, events.JobEvent) and not isinstance(event, events.JobSubmitted):
        record = state.records[event.job_id]
        handle = None if record.spec.fixed is None else OF_FIXED_JOBS.get(type(event))
        held = record.gang.held
        (handle or OF_JOBS[type(event)])(event, state, record)
        if record.phase is Phase.FAILED and isinstance(event, events.GangEnded | events.ProfilingFailed):
            held = held if isinstance(event, events.GangEnded) else event.devices
            note_failure(state, record, held, is_of_trial=isinstance(event, events.ProfilingFailed))
        _note_set_aside(state, record)
        state.touch(record)
    else:
        OF_PLATFORM[type(event)](event, state)


# ---------------------------------------------------------------- events about no known job
def job_submitted(event: events.JobSubmitted, state: HeadState) -> None:
    record = _enter(event, state)
    record.progress.done_steps = _truth(record, event.origin.steps)
    from_step = _step(record, "from", int(record.progress.done_steps))
    goes_on = f", to continue {record.continues}{from_step}" if record.continues else ""
    state.explain(record, "submitted", f"was submitted as {event.spec.job_class}{goes_on}")
    if event.spec.elasticity is Elasticity.RESTART:
        record.learn_length(None)
        if record.spec.starts_silently:
            state.belief.learn_estimate(record.id, record.spec, record.estimate_s)
        if event.spec.job_class is JobClass.STRICT:
            record.ask_when_measured()
    _note_set_aside(state, record)
    state.touch(record)


def _enter(event: events.JobSubmitted, state: HeadState) -> JobRecord:
    record = JobRecord(
        id=event.job_id,
        spec=state.specs.one_for(event.spec),
        submitted_s=event.at_s,
        progress=JobProgress(as_of_s=event.at_s),
        calendar_offset_s=state.calendar.offset_s,
        tenant=state.tenants.join(event.spec.tenant),
        continues=event.origin.continues,
        user=event.origin.user,
        awaits=event.spec.after,
        booking=event.spec.booking,
    )
    record.account_number = state.accounts.join(record.account)
    state.records[event.job_id] = record
    return record


def node_joined(event: events.NodeJoined, state: HeadState) -> None:
    node = event.node
    is_same = state.away.pop(node.name, None) is not None or state.cluster.has_node(node.name)
    if not is_same:
        state.readmit(node.name)
    if event.is_untested and not is_same and not state.warned.get(node.name):
        state.warned[node.name] = [events.NodeWarned(at_s=event.at_s, name=node.name, why=UNTESTED)]
    state.set_cluster(state.cluster.with_node(node))


def node_lost(event: events.NodeLost, state: HeadState) -> None:
    if event.is_host_kept:
        had = (node.devices for node in state.cluster.nodes if node.name == event.name)
        state.away[event.name] = next(had, state.away.get(event.name, ()))
    else:
        state.away.pop(event.name, None)
        state.readmit(event.name)
        if ill := [cause for cause in state.warned.pop(event.name, ()) if cause.is_ill]:
            state.warned[event.name] = ill
        state.ends_s.pop(event.name, None)
        state.tests.pop(event.name, None)
        state.suspects.pop(event.name, None)
        forget_node(state, event.name)
    if event.name not in state.cluster.borrowed:  # no promise stands on those
        befall_all(state, "node", event.name)
    is_owned = state.cluster.has_node(event.name) and event.name not in state.cluster.borrowed
    if is_owned and event.name not in state.warned:
        state.losses.owned.num_lost += 1
    state.set_cluster(state.cluster.without_node(event.name))


def node_warned(event: events.NodeWarned, state: HeadState) -> None:
    if event.name not in state.cluster.borrowed:
        befall_all(state, "leaving", event.name)
    if event.is_ill:
        state.suspects.pop(event.name, None)
    others = [cause for cause in state.warned.get(event.name, ()) if cause.why != event.why]
    state.warned[event.name] = [*others, event]  # what the same one said before is replaced
    state.measure_cluster()


def node_cleared(event: events.NodeCleared, state: HeadState) -> None:
    rest = [cause for cause in state.warned.pop(event.name, ()) if event.why and cause.why != event.why]
    state.failures = [one for one in state.failures if one.node != event.name]
    state.suspects.pop(event.name, None)
    if rest:
        state.warned[event.name] = rest
    else:
        state.readmit(event.name)
        state.measure_cluster()


def node_tested(event: events.NodeTested, state: HeadState) -> None:
    state.tests[event.name] = event
    at_s, name = event.at_s, event.name
    faults = [f"device {one.device}: {one.fault}" for one in event.results if one.fault]
    causes = state.warned.get(name, ())
    for cause in [one for one in causes if one.why == UNTESTED or (one.is_ill and not faults)]:
        node_cleared(events.NodeCleared(at_s=at_s, name=name, why=cause.why), state)
    if faults:
        why = f"its test failed ({faults[0]})"
        node_warned(events.NodeWarned(at_s=at_s, name=name, why=why, is_ill=True), state)


def node_end_known(event: events.NodeEndKnown, state: HeadState) -> None:
    known_s, until_s = state.ends_s.pop(event.name, math.inf), event.until_s
    is_owned = state.cluster.has_node(event.name) and event.name not in state.cluster.borrowed
    if until_s is not None and until_s < known_s < math.inf and is_owned:
        befall_all(state, "leaving", event.name)  # promises were made with the later end
    passed = [name for name, at_s in state.ends_s.items() if at_s <= state.now_s]
    for name in passed:
        if not state.cluster.has_node(name) and name not in state.away:  # it has never joined
            del state.ends_s[name]
    if until_s is not None:
        state.ends_s[event.name] = until_s


def woke(event: events.Woke, state: HeadState) -> None:
    state.wake_s = None


def drain_requested(event: events.DrainRequested, state: HeadState) -> None:
    state.is_draining = True
    for record in state.records.values():
        if record.backoff.until_s > 0.0:
            state.touch(record)
        record.backoff.end_wait()


def opened(event: events.Opened, state: HeadState) -> None:
    state.is_draining = False
    state.policy = event.policy or state.policy
    if state.records:
        befall_all(state, "down")
    for record in state.records.values():
        if record.commanded.waits_since_s is not None:  # it did not wait for others while nothing ran
            record.commanded.waits_since_s = None
            state.touch(record)
    if event.calendar_offset_s is not None:
        offsets_s = event.boot_offset_s, event.calendar_offset_s
        follow(state, state.calendar.opened(event.at_s, event.boot_id, *offsets_s))


def clock_stepped(event: events.ClockStepped, state: HeadState) -> None:
    follow(state, state.calendar.stepped(event.at_s, event.calendar_offset_s))


def quotas_set(event: events.QuotasSet, state: HeadState) -> None:
    state.quotas, state.weights = dict(event.quotas), dict(event.weights)
    befall_all(state, "quotas")


def booking_made(event: events.BookingMade, state: HeadState) -> None:
    state.bookings[event.booking.id] = event.booking


def booking_removed(event: events.BookingRemoved, state: HeadState) -> None:
    state.bookings.pop(event.booking_id, None)


def event_set_aside(event: events.EventSetAside, state: HeadState) -> None:
    """End the job at once as failed; what runs of it is stopped, and keeps its devices until it is gone."""
    record = state.records.get(event.job_id)
    if record is None:
        if not (event.job_id and isinstance(event.event, events.JobSubmitted)):
            return
        record = _enter(event.event, state)
    if record.phase.holds_devices and not isinstance(event.event, events.GangEnded | events.GangSuspended):
        gang = UnknownGang(
            job_id=record.id,
            found=record.generation,
            devices=record.gang.held,
            formed=record.generation if record.gang.is_launching else record.gang.generation,
        )
        state.unknown.gangs[record.id] = gang  # the head does not follow it any longer
    record.is_cancelled = not isinstance(
        event.event, events.JobProfiled | events.ProfilingFailed
    )  # a trial run is ended
    record.status.message = event.why
    what = "what has become of it" if event.event is None else f"its {type(event.event).__name__}"
    text = f"the scheduler could not handle {what}: {event.why}; `swell doctor` shows more"
    state.end(record, Phase.FAILED, "set_aside", text)


# ---------------------------------------------------------------- events about a gang of another journal
def _apply_to_unknown(event: UnknownGangEvent, state: HeadState) -> None:
    state.unknown.hear(event)
    record = state.records.get(event.job_id)
    if record is None:
        return
    record.generation = max(record.generation, event.generation + 1)  # of the command that ends it, at least
    if isinstance(event, events.GangFound):
        _give_up_believed(event, state, record)
        _note_set_aside(state, record)
    state.touch(record)


def _give_up_believed(event: events.GangFound, state: HeadState, record: JobRecord) -> None:
    """The gang that the journal tells of is not the one that runs."""
    if record.phase.holds_devices:
        record.release(event.at_s)
        if record.is_cancelled:
            state.end(record, Phase.CANCELLED, "cancelled", "was cancelled")
            return
        record.become(NO_GANG)
    text = (
        f"workers of it run of which the journal does not know (generation {event.generation}, "
        f"{len(event.devices)} devices): they are ended, and the job goes on from its newest checkpoint"
    )
    state.explain(record, "found", text)


# ---------------------------------------------------------------- events about a known job
def job_profiled(event: events.JobProfiled, state: HeadState, record: JobRecord) -> None:
    record.is_profiling = False
    record.backoff.num_setbacks, record.backoff.num_races, record.backoff.until_s = 0, 0, 0.0
    record.backoff.go_on()
    record.learn_length(state.profiles.one_for(event.profile))
    if record.progress.total_steps is None:
        record.status.message = _endless(record)
        state.end(record, Phase.FAILED, "failed", f"how long it is cannot be known; {_where(record)}")
        return
    state.belief.learn_profile(record.id, record.spec, event.profile)
    state.relearn(record)
    state.costs.learn_trial(event.profile)
    after_s = event.at_s - record.submitted_s
    after = f", known {span(after_s)} after its submission" if after_s >= LEAST_TRIAL_S else ""
    state.explain(record, "profiled", f"has {record.progress.total_steps:.0f} steps to do{after}")
    for found in record.findings:
        state.tell(record, "finding", _told_finding(record, found, "its trial run found"))
    if record.spec.hold_after_trial and not record.is_held:
        record.hold()
        state.relearn(record)


def trial_queued(event: events.TrialQueued, state: HeadState, record: JobRecord) -> None:
    record.trial_behind = event.behind or record.trial_behind
    record.trial_waited_s = event.waited_s
    waits = f"waits for {record.told_trials}"
    state.explain(record, "profiling", waits if event.behind else record.backoff.told_of_trial())


def profiling_failed(event: events.ProfilingFailed, state: HeadState, record: JobRecord) -> None:
    record.backoff.cause = event.message
    if event.outcome is not events.Outcome.LOST:
        why = failure_sentence(event.message) or "no reason was told"
        text = f"its trial run failed: {why}; {_where(record)}"
        state.end(record, Phase.FAILED, "failed", text)
    elif state.lacks_nodes(record):  # what it waits for is told instead
        record.is_profiling = False
    elif event.is_taken:
        record.is_profiling = False
        record.backoff.note_race(state.now_s)
        told = record.backoff.told(state.now_s, "before its trial run is tried again")
        state.explain(record, "trial_lost", told)
    elif record.backoff.is_last_loss:
        text = f"its trial run was lost {MAX_SETBACKS} times in a row, through no fault of the script"
        state.end(record, Phase.FAILED, "failed", f"{text}; {_where(record)}")
    else:
        record.is_profiling = False
        record.backoff.note_loss(state.now_s)
        state.explain(record, "trial_lost", f"lost its trial run: {record.backoff.told(state.now_s)}")


def cancel_requested(event: events.CancelRequested, state: HeadState, record: JobRecord) -> None:
    record.is_cancelled = True
    if record.phase is Phase.QUEUED:
        state.end(record, Phase.CANCELLED, "cancelled", event.why or "was cancelled before it ran")
    else:
        state.explain(record, "cancelling", "is being stopped, as its owner asked")


def hold_requested(event: events.HoldRequested, state: HeadState, record: JobRecord) -> None:
    was_promised = record.admission.is_promised
    record.hold()
    state.relearn(record)  # its row has another class
    withdrawn = "; the promise of its deadline is withdrawn, and asked for again when it is resumed"
    text = f"is to be held, as its owner asked{withdrawn if was_promised else ''}"
    state.explain(record, "holding", text)


def resume_requested(event: events.ResumeRequested, state: HeadState, record: JobRecord) -> None:
    record.is_held, record.awaits, record.sizes.waits_from_s = False, (), event.at_s
    state.explain(record, "resumed", "is resumed, as its owner asked")


def predecessors_succeeded(event: events.PredecessorsSucceeded, state: HeadState, record: JobRecord) -> None:
    followed, record.awaits = ", ".join(record.awaits), ()
    record.sizes.waits_from_s = event.at_s
    state.explain(record, "resumed", f"may start: {followed} succeeded")


def _note_set_aside(state: HeadState, record: JobRecord) -> None:
    """A job without a gang that is set aside waits, whatever has just become of it."""
    if not record.is_set_aside or record.phase is not Phase.QUEUED or record.is_profiling:
        return
    code, text = "held", f"is held: `swell resume {record.id}` lets it go on"
    if not record.is_held:
        code, text = "awaiting", f"starts once {', '.join(record.awaits)} succeeded"
    if record.status.reason_code != code:
        state.explain(record, code, text)


def deadline_change_asked(event: events.DeadlineChangeAsked, state: HeadState, record: JobRecord) -> None:
    admission = record.admission
    admission.asked = AskedDeadline(deadline_s=event.deadline_s, accept_until_s=event.accept_until_s)
    admission.refusal, admission.counter_offer_s = "", None
    record.awaits_speed = record.spec.starts_silently and not state.belief.of(record.id).num_known
    state.relearn(record)  # its row has the class of those who ask for a promise
    due = relative(event.deadline_s - record.calendar_offset_s - state.now_s)
    state.tell(record, "deadline_asked", f"its owner asks for another deadline, {due}")


def gang_started(event: events.GangStarted, state: HeadState, record: JobRecord) -> None:
    record.start(event, state.nodes_of(record.gang.held))
    record.rolls_back = False
    record.progress.done_steps = _truth(record, event.steps)
    note_phase(state, record, event.steps)
    record.progress.first_step = event.steps
    record.status.stepped_s = event.at_s
    if record.spec.starts_silently:
        record.progress.pause(record.commanded.launched_s, record.num_workers)
    else:
        learn_start(state, record, event.at_s)
    state.set_rate(record, record.num_workers)
    state.latest.note_up(record, event.at_s)
    record.progress.unmeasured = Mark(event.at_s, float(event.steps))
    size = told_workers(record.num_workers)
    text = f"trains with {size}{_step(record, 'from', event.steps)}{_batch(record)}"
    state.tell(record, "started", text)


def gang_resized(event: events.GangResized, state: HeadState, record: JobRecord) -> None:
    record.advance(event.at_s)
    before, gang = record.sizes.latest, record.gang
    learn_stretch(state, record, event.at_s, event.steps)
    record.become(record.gang.changed(event.generation))
    record.num_nodes = state.nodes_of(record.gang.held)
    record.progress.done_steps = _truth(record, event.steps)
    note_phase(state, record, event.steps)
    record.backoff.go_on()
    if gang.is_given_a_share:  # which says nothing of a resize that did not work
        record.backoff.num_refused_shares = 0
    else:
        record.backoff.num_failed_changes = 0
    if gang.is_reconfigured_in_place:
        if not gang.is_given_a_share:
            state.tell(record, "batch", f"goes on with {_told_configuration(record)}")
        state.set_rate(record, record.num_workers)
        return
    record.resizes.num_done += 1
    _note_steps(record, event)
    learn_resize(state, record, event)
    record.status.note_pids(event.pids)
    record.sizes.note(event.at_s, record.num_workers)
    state.set_rate(record, record.num_workers)
    if record.spec.starts_silently:
        record.progress.pause(record.commanded.asked_s, record.num_workers)
    elif record.spec.counts_steps:  # others report no end of a pause
        record.progress.pause(event.at_s, record.num_workers)
    now = told_workers(record.num_workers)
    went = f"went from {before} to {now}" if before != record.num_workers else f"goes on with {now}"
    state.tell(record, "resized", f"{went}{_step(record, 'at', event.steps)}{_batch(record)}")


def resize_failed(event: events.ResizeFailed, state: HeadState, record: JobRecord) -> None:
    gang, backoff = record.gang, record.backoff
    befall(state, record, "resize")
    record.become(gang.change_failed())
    record.resizes.call_off(event.at_s)
    if state.is_ruled_out(record, gang.goal.devices):  # it is not asked again to go there
        return
    if not set(state.cluster.devices).issuperset(gang.goal.devices):  # the next plan is without
        kept = told_workers(record.num_workers)
        state.tell(
            record,
            "resize_failed",
            f"kept its {kept}: devices of the change have left: {failure_sentence(event.message)}",
        )
        return
    note = backoff.note_refused_share if gang.is_given_a_share else backoff.note_failed_change
    cause = note(state.now_s, event.message)
    kept = _told_configuration(record) if gang.is_reconfigured_in_place else told_workers(record.num_workers)
    state.tell(record, "resize_failed", f"kept its {kept}: the change did not work: {cause}")


def steps_reported(event: events.StepsReported, state: HeadState, record: JobRecord) -> None:
    record.status.loss = record.status.loss if event.loss is None else event.loss
    record.status.metrics = {**record.status.metrics, **event.metrics}
    value = event.loss if record.spec.metric == LOSS else event.metrics.get(record.spec.metric)
    record.usage.note(event.at_s, value, event.usage)
    if event.brings_steps:
        _note_progress(state, record, event)


def _note_progress(state: HeadState, record: JobRecord, event: events.StepsReported) -> None:
    record.advance(event.at_s)
    record.status.stepped_s = event.at_s
    again_s = learn_first_step(state, record, event)
    if event.steps > record.progress.first_step:
        record.backoff.num_setbacks = 0
    learn_rate(state, record, event)
    note_sample_times(state, record, event)
    note_slowness(state, record)
    learn_between(state, record, event)
    record.status.batch = record.global_batch
    if event.save_s is not None:
        record.save_s = event.save_s
    if event.noise_scale is not None:
        state.belief.of(record.id).learn_noise(event.noise_scale)
        state.relearn(record)
        record.status.noise_scale = event.noise_scale if math.isfinite(event.noise_scale) else None
    record.progress.done_steps = _truth(record, event.steps)
    if record.is_content(event.at_s):
        record.backoff.go_on()
    record.status.step_s = event.step_s or record.status.step_s
    learn_pause(state, record, event, again_s)
    record.progress.resume()
    if record.phase is Phase.RUNNING:
        state.set_rate(record, 0 if record.gang.is_broken else record.num_workers)


def script_distributed(event: events.ScriptDistributed, state: HeadState, record: JobRecord) -> None:
    record.is_distributed = True
    record.commanded.changed_s = None  # its size was no choice: it need not be kept for a while
    state.relearn(record)
    state.tell(record, "distributed", "has shown that its script works with other workers: it may have more")


def differences_accepted(event: events.DifferencesAccepted, state: HeadState, record: JobRecord) -> None:
    record.accepted = tuple(dict.fromkeys(record.accepted + event.names))
    record.commanded.changed_s = None  # its size was no choice: it need not be kept for a while
    state.relearn(record)
    held = f"; it stays limited by {' and '.join(record.held_by)}" if record.held_by else ""
    state.tell(record, "accepted", f"its owner accepts {' and '.join(event.names)}{held}")


def priority_changed(event: events.PriorityChanged, state: HeadState, record: JobRecord) -> None:
    given = {"priority": event.priority, "weight": event.weight}
    before, news = record.spec, {name: value for name, value in given.items() if value is not None}
    record.spec = msgspec.structs.replace(before, **news)
    state.relearn(record)
    changes = [f"its {name} from {getattr(before, name):g} to {value:g}" for name, value in news.items()]
    state.tell(record, "priority", f"its owner changes {' and '.join(changes)}")


def script_verified(event: events.ScriptVerified, state: HeadState, record: JobRecord) -> None:
    record.unverified = event.why_not
    known = {(found.name, found.place) for found in record.findings}
    news = tuple(found for found in event.findings if (found.name, found.place) not in known)
    for found in news:
        record.differences += (found,)
        since = f"; results may differ since step {record.verified_steps or 0}" if found.holds else ""
        state.tell(record, "differs", _told_finding(record, found, "a new worker found") + since)
    if news:
        record.commanded.changed_s = None  # what it has need not be kept for a while
        is_held = any(found.name in record.held_by for found in news)
        record.rolls_back = is_held and record.is_to_roll_back and record.verified_steps is not None
        if record.admission.is_promised and is_held:
            record.admission.is_void = True
            record.ask_again()
        state.relearn(record)
    if event.steps is not None and not any(found.holds for found in event.findings):
        record.verified_steps = max(event.steps, record.verified_steps or 0)
        state.tell(record, "verified", f"a new worker has computed step {event.steps + 1} again: the same")


def _told_finding(record: JobRecord, found: ScriptFinding, what: str) -> str:
    place = f" ({found.place})" if found.place else ""
    is_held = found.name in record.held_by
    held = f"is limited to {told_workers(record.spec.min_workers)}" if is_held else "may have any size"
    return f"{held}: {what} {found.name}{place}: {found.text}"


def job_warned(event: events.JobWarned, state: HeadState, record: JobRecord) -> None:
    if not event.about:
        record.status.message = event.message
        state.tell(record, "warned", event.message)
    elif record.status.warn(event.about, event.message):
        state.tell(record, "warned", event.message or f"no more of the warning about its {event.about}")
        if event.about == events.STEPS and event.message:
            _stand_still(state, record, event.at_s)
        elif event.about == events.IDLE:
            record.status.idle_since_s = (record.status.idle_since_s or event.at_s) if event.message else None


def job_linked(event: events.JobLinked, state: HeadState, record: JobRecord) -> None:
    links = {**record.status.links, event.name: event.url}
    record.status.links = dict([*links.items()][:MOST_LINKS])


def _stand_still(state: HeadState, record: JobRecord, at_s: float) -> None:
    """Its gang is no longer believed to go on: the job is as far as its last report said."""
    record.advance(at_s)
    if (last := record.progress.reported) is not None:
        record.progress.done_steps = _truth(record, last.steps)
    state.set_rate(record, 0)


def host_ruled_out(event: events.HostRuledOut, state: HeadState, record: JobRecord) -> None:
    nodes = [node.name for node in state.cluster.nodes if not set(node.devices).isdisjoint(event.devices)]
    news = [name for name in nodes if name not in record.ruled_out]
    record.ruled_out = {**record.ruled_out, **dict.fromkeys(nodes, event.message)}
    state.relearn(record)
    if news:
        befall(state, record, "barred")
        state.tell(
            record, "ruled_out", f"does not run on {', '.join(news)}: {failure_sentence(event.message)}"
        )


def workers_lost(event: events.WorkersLost, state: HeadState, record: JobRecord) -> None:
    record.advance(event.at_s)
    record.progress.unmeasured = None
    record.resizes.lose(event.at_s, record.num_workers)
    record.tenure.take()
    befall(state, record, "lost")
    state.note_lost_workers(record, event.devices, is_whole=False)
    record.become(record.gang.lose(event.generation, event.devices))
    record.progress.rate_per_s = 0.0
    record.progress.resume()
    record.sizes.note(event.at_s, record.num_workers)
    state.tell(
        record,
        "workers_lost",
        f"lost workers and goes on with {record.num_workers}: {failure_sentence(event.message)}",
    )


def suspend_failed(event: events.SuspendFailed, state: HeadState, record: JobRecord) -> None:
    befall(state, record, "suspend")
    record.become(record.gang.save_failed())
    cause = record.backoff.note_failed_change(state.now_s, event.message)
    state.tell(record, "suspend_failed", f"trains on: its checkpoint could not be written: {cause}")


def gang_suspended(event: events.GangSuspended, state: HeadState, record: JobRecord) -> None:
    _note_steps(record, event)
    learn_stretch(state, record, event.at_s, event.steps)
    record.release(event.at_s)
    record.backoff.go_on()
    record.progress.done_steps = _truth(record, event.steps)
    if record.is_cancelled:
        state.end(record, Phase.CANCELLED, "cancelled", "was cancelled")
        return
    if not state.is_draining:
        record.tenure.take()
    record.become(NO_GANG)
    record.status.end_warnings_of_gang()
    is_live = record.spec.elasticity is Elasticity.LIVE
    text = f"with its checkpoint of step {event.steps}" if is_live else "to go on from its own checkpoint"
    state.explain(record, "suspended", f"waits {text}")


def gang_ended(event: events.GangEnded, state: HeadState, record: JobRecord) -> None:
    # Of a gang that never trained nothing is known but what was known before. What was believed of one that
    # did counts no more: its script may have hung.
    steps = record.progress.done_steps if record.gang.is_launching else _truth(record, event.steps)
    if event.outcome is events.Outcome.SUCCEEDED:
        learn_stretch(state, record, event.at_s, event.steps)
    record.progress.unmeasured = None
    if event.outcome.is_of_script or event.outcome is events.Outcome.STOPPED:
        record.resizes.call_off(event.at_s, Verdict.OVERTAKEN)
        _note_steps(record, event)
    has_lasted = record.has_lasted(event.at_s)
    is_reclaimed = event.outcome is events.Outcome.LOST and not state.devices.issuperset(record.gang.held)
    is_refused = record.gang.is_launching and state.is_ruled_out(record, record.gang.goal.devices)
    if event.outcome is events.Outcome.LOST:
        befall(state, record, "launch" if record.gang.is_launching else "lost")
        if not record.gang.is_launching:
            state.note_lost_workers(record, record.gang.held, is_whole=True)
    record.release(event.at_s)
    record.progress.done_steps = steps
    _note_end(record, event)
    if has_lasted:
        record.backoff.num_setbacks = 0
    if event.outcome is events.Outcome.SUCCEEDED:
        record.progress.done_steps = _truth(record, event.steps)
        late = told_late(state, record, event.at_s)
        state.end(record, Phase.SUCCEEDED, "succeeded", f"{_success(record, event)}{late}", event.at_s)
    elif event.outcome is events.Outcome.ENDED_EARLY:
        record.progress.done_steps = _truth(record, event.steps)
        state.end(record, Phase.ENDED_EARLY, "ended_early", event.message, event.at_s)
    elif record.is_cancelled:
        state.end(record, Phase.CANCELLED, "cancelled", "was cancelled")
    elif event.outcome is events.Outcome.FAILED:
        why = failure_sentence(record.status.message) or "it ended with an error"
        state.end(record, Phase.FAILED, "failed", f"{why}; {_where(record)}", event.at_s)
    elif is_reclaimed:  # through no fault of the job: it may go on elsewhere at once, however often
        record.tenure.take()
        why = "lost all its workers, whose devices left the cluster, or were about to,"
        _requeue(state, record, why, event.message)
    elif event.outcome is events.Outcome.LOST and is_refused:  # likewise
        _requeue(state, record, "was to run where it cannot")
    elif event.outcome is events.Outcome.LOST:
        _note_loss(state, record, event)
    else:
        _requeue(state, record, "was stopped", event.message)


def _success(record: JobRecord, event: events.GangEnded) -> str:
    total = record.known_total
    is_within = total is not None and event.steps < total and record.spec.end.target is None
    if is_within and event.message:  # a stream's epochs may be shorter than was known
        return "was ended by its own script, which has left its loop"
    return "met its end condition"


def _note_loss(state: HeadState, record: JobRecord, event: events.GangEnded) -> None:
    """It is tried again, unless that would go on for ever."""
    backoff, is_last = record.backoff, record.backoff.is_last_loss
    if event.is_over_memory:
        backoff.note_loss_by_memory(state.now_s, max(event.steps, record.progress.first_step))
    else:
        backoff.note_loss(state.now_s)
    if backoff.num_over_memory >= MAX_SETBACKS:
        state.end(record, Phase.FAILED, "failed", _memory_too_small(record))
    elif is_last:
        text = f"its workers were lost {MAX_SETBACKS} times in a row without a finished step"
        state.end(record, Phase.FAILED, "failed", text)
    else:
        record.tenure.take()
        _requeue(state, record, "lost all its workers", event.message)


def _note_steps(
    record: JobRecord, event: events.GangResized | events.GangSuspended | events.GangEnded
) -> None:
    """Record the steps that the gang had made when it gave up its size.

    The gang need not have reported any step at that size before, as in a simulation.
    """
    if record.spec.counts_steps:
        record.resizes.note_steps(event.at_s, float(event.steps))


def _note_end(record: JobRecord, event: events.GangEnded) -> None:
    """What its end says of itself stays; of what had gone wrong before, only what has not been mended."""
    if event.outcome.is_of_script or event.outcome is events.Outcome.FAILED:
        record.backoff.go_on()
        record.status.message = event.message or record.status.message
    else:
        record.backoff.cause = event.message or record.backoff.cause


def _requeue(state: HeadState, record: JobRecord, cause: str, message: str = "") -> None:
    """`message`: how its workers ended."""
    record.become(NO_GANG)
    record.status.end_warnings_of_gang()
    how = f": {failure_sentence(message)}" if message.strip() else ""
    state.explain(record, "requeued", f"{cause} and waits to go on from its last checkpoint{how}")


def _told_configuration(record: JobRecord) -> str:
    return record.gang.members.configuration.told(record.spec.global_batch)


def _where(record: JobRecord) -> str:
    return f"`swell logs {record.id}` shows how"


def _memory_too_small(record: JobRecord) -> str:
    limit = record.spec.memory_bytes
    amount = "" if limit is None else f" of {format_bytes(limit)}"
    saved = record.backoff.saved_steps
    place = f"never came further than its checkpoint of step {saved}" if saved else "no step was saved"
    return (
        f"its memory limit{amount} ended its workers {MAX_SETBACKS} times, and {place}: a job that gets no "
        "further is not tried for ever; submit it with a higher `--memory`, or with fewer workers"
    )


def _endless(record: JobRecord) -> str:
    if record.spec.end.epochs is None:
        return (
            f"neither job {record.spec.name!r} nor its script names an end; submit it with --epochs or "
            "--steps, or give elastic() epochs=..."
        )
    return (
        f"job {record.spec.name!r} has no end that can be counted: its end condition is in epochs, and its "
        "script names no number of samples in an epoch; name it, or give the end in steps or samples"
    )


def _truth(record: JobRecord, steps: int) -> float:
    """Reported steps; work that is counted in seconds stays what it was believed to be."""
    return float(steps) if record.spec.counts_steps else record.progress.done_steps


def _step(record: JobRecord, preposition: str, steps: int) -> str:
    """What a restart job says of its steps may be nothing."""
    is_known = steps > 0 or record.spec.elasticity is Elasticity.LIVE
    return f" {preposition} step {steps}" if is_known else ""


def _batch(record: JobRecord) -> str:
    """Where it may be another one than the job's own."""
    return f", with {_told_configuration(record)}" if record.spec.may_change_batch else ""


def _by_event(handlers: Iterable[Callable[..., None]]) -> dict[type, Callable[..., None]]:
    return {get_type_hints(handle)["event"]: handle for handle in handlers}


#: What events mean that are about no known job.
OF_PLATFORM = _by_event(
    [
        *(
            job_submitted,
            node_joined,
            node_lost,
            node_warned,
            node_cleared,
            node_tested,
            node_end_known,
            woke,
        ),
        *(drain_requested, opened, clock_stepped, quotas_set, booking_made, booking_removed),
        event_set_aside,
    ]
)
#: And those about a known one; see also `OF_FIXED_JOBS`.
OF_JOBS = _by_event(
    [
        *(job_profiled, trial_queued, profiling_failed, cancel_requested, hold_requested),
        *(resume_requested, predecessors_succeeded, deadline_change_asked, gang_started, gang_resized),
        *(resize_failed, steps_reported, script_distributed, differences_accepted, priority_changed),
        *(script_verified, job_warned, job_linked, host_ruled_out, workers_lost, suspend_failed),
        *(gang_suspended, gang_ended),
    ]
)
