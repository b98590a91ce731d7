"""What reports teach: how fast a job goes, what resizes cost and bring, and how few workers it may have."""

from __future__ import annotations

from swell.core.deadlines import note_change
from swell.core.progress import Change, LastReport, Mark
from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import GangResized, StepsReported
from swell.model.job import Elasticity
from swell.model.plan import JobPlan
from swell.model.quantities import told_workers
from swell.model.throughput import CheckedEstimate, EstimateSource

#: Of a stretch that says something about speed.
LEAST_STEPS = 20
#: Estimates from measurements of the same number of workers are told of if they were wrong by so much.
NOTABLE_SHARE = 0.1
GUESSES = (EstimateSource.INTERPOLATED, EstimateSource.EXTRAPOLATED)


def learn_rate(state: HeadState, record: JobRecord, event: StepsReported) -> None:
    """What the job did since its last report, over the time that took: checkpoints too.

    The time between epochs is known apart, for it comes once an epoch and at every size. A report without a
    step time covers the first step of a generation, and so a change of the gang.
    """
    last = record.progress.reported
    now = record.progress.reported = LastReport(
        at_s=event.at_s, steps=event.steps, generation=event.generation, num_workers=event.num_workers
    )
    if event.step_s is not None:
        record.progress.unmeasured = None
    elif event.pause_s is not None:
        record.progress.unmeasured = Mark(event.at_s, float(event.steps))
    if last is None or (now.generation, now.num_workers) != (last.generation, last.num_workers):
        record.progress.first_reported = now
        return
    if event.step_s is None:
        return
    num_steps = event.steps - last.steps
    trained_s = event.at_s - last.at_s - (event.between.time_s if event.between else 0.0)
    if num_steps > 0 and trained_s > 0.0:
        step_s = trained_s / num_steps
        _learn_steps(state, record, event.num_workers, step_s, num_steps, event.global_batch)


def learn_start(state: HeadState, record: JobRecord, at_s: float) -> None:
    """A gang that was launched trains."""
    record.status.start_s = start_s = at_s - record.commanded.launched_s
    note_change(record, start_s)
    state.costs.learn("start", record, record.num_workers, start_s, at_s)


def learn_first_step(state: HeadState, record: JobRecord, event: StepsReported) -> float:
    """What the first report of a gang tells of its start; seconds for which it makes steps again."""
    last, log = record.progress.reported, record.resizes
    if last is not None and last.generation == event.generation:
        return 0.0
    is_resized = any(
        one is not None and one.generation == event.generation for one in (log.under_way, log.held)
    )
    if record.spec.starts_silently and not is_resized:
        learn_start(state, record, event.at_s)
    if event.found_steps is None:
        return 0.0
    record.progress.first_step = event.found_steps
    if last is None:
        return 0.0
    num_again = max(0, last.steps - event.found_steps)
    record.status.repeated_steps += num_again
    return num_again * (record.status.step_s or 0.0)


def _learn_steps(
    state: HeadState,
    record: JobRecord,
    num_workers: int,
    step_s: float,
    num_steps: int,
    global_batch: int | None,
) -> None:
    """See `FittedBelief.learn_rate`. Where a stated speed counts for good, nothing is learnt."""
    if record.spec.keeps_estimates and record.spec.speed:
        return
    belief, num_hosts = state.belief, state.num_hosts(record, num_workers)
    checked = belief.learn_rate(record.id, num_workers, step_s, num_steps, global_batch, num_hosts)
    state.relearn(record)
    # An estimate that was no measurement is always told of.
    if checked is not None and (checked.source in GUESSES or abs(checked.error) >= NOTABLE_SHARE):
        state.tell(record, "checked", _told_check(num_workers, checked))
    if record.awaits_speed and belief.of(record.id).num_known:
        record.awaits_speed = False
        state.tell(record, "measured", "its first steps are measured: its deadline can be decided on")
    elapsed_s = step_s * num_steps
    if doubted := belief.of(record.id).doubt_larger(num_workers, elapsed_s, global_batch, num_hosts):
        sizes = ", ".join(map(str, doubted))
        text = f"{sizes} workers were no faster than {num_workers} when they were last measured"
        state.tell(
            record, "doubted", f"{text}: plans count on their estimate once more, and may try them again"
        )
        state.last_plan.is_overtaken = True


def _told_check(num_workers: int, checked: CheckedEstimate) -> str:
    """`with 8 workers a step takes 0.12 s, 14% more than extrapolated: ...`."""
    made_from = {
        EstimateSource.TRIAL: "measured in its trial run",
        EstimateSource.PARTS: "estimated from the step and the all-reduce that its trial run measured",
    }.get(checked.source, f"{checked.source}")
    share = round(100 * abs(checked.error))
    compared = f"{share}% {'more' if checked.error > 0 else 'less'} than" if share else "as"
    return (
        f"with {told_workers(num_workers)} a step takes {checked.step_s:.3g} s, {compared} {made_from}: "
        f"plans count on what was measured, with a margin of {checked.margin:.1%}"
    )


def learn_between(state: HeadState, record: JobRecord, event: StepsReported) -> None:
    """What followed the epochs that have ended."""
    if event.between is not None and event.between.num_steps > 0:
        state.belief.of(record.id).learn_between(event.between)
        state.relearn(record)
    note_phase(state, record, event.steps)


def note_phase(state: HeadState, record: JobRecord, steps: int) -> None:
    """How far the epoch under way is. Of one whose last step is reported, the rest is still to come."""
    between, profile, progress = state.belief.of(record.id).between, record.profile, record.progress
    progress.phase_s = 0.0
    if profile is not None and progress.total_steps:
        progress.phase_s = profile.end_s * steps / progress.total_steps
    if between is not None and steps > 0:
        steps_in_epoch = (steps - 1) % between.num_steps + 1
        progress.phase_s += between.per_step_s * steps_in_epoch
    if progress.phase_s:
        progress.phase_rate_per_s = state.rate_per_s(record, record.num_workers or 1)


def _ends_s(state: HeadState, record: JobRecord, first: int, last: int) -> float:
    """What followed the epochs that ended between two numbers of steps."""
    between = state.belief.of(record.id).between
    if between is None:
        return 0.0
    num_ends = max(last - 1, 0) // between.num_steps - max(first - 1, 0) // between.num_steps
    return num_ends * between.time_s


def _beside_per_step_s(state: HeadState, record: JobRecord) -> float:
    """Time of a step, as rates count it, that is not the step's own."""
    between, profile, total_steps = (
        state.belief.of(record.id).between,
        record.profile,
        record.progress.total_steps,
    )
    per_step_s = 0.0 if between is None else between.per_step_s
    return per_step_s + (profile.end_s / total_steps if profile is not None and total_steps else 0.0)


def learn_stretch(state: HeadState, record: JobRecord, at_s: float, steps: int) -> None:
    """A gang that never said how long a step takes has trained at one size until now.

    Its speed is what it did from its first step at that size, or from the end of the pause before it.
    """
    progress = record.progress
    since, num_workers = progress.unmeasured, record.num_workers
    progress.unmeasured = None
    is_of_one_kind = record.spec.elasticity is Elasticity.LIVE and not record.spec.may_change_batch
    if since is None or not num_workers or not is_of_one_kind:
        return
    num_steps, elapsed_s = steps - since.steps, at_s - since.at_s
    elapsed_s -= _ends_s(state, record, int(since.steps), steps)
    rate_per_s = state.rate_per_s(record, num_workers)
    if num_steps < LEAST_STEPS or elapsed_s <= 0 or rate_per_s <= 0:
        return
    expected = elapsed_s / (1.0 / rate_per_s - _beside_per_step_s(state, record))
    is_as_believed = abs(expected - num_steps) <= 1.0  # a step is counted or not: no more can be seen
    step_s = elapsed_s / (expected if is_as_believed else num_steps)
    _learn_steps(state, record, num_workers, step_s, int(num_steps), None)


def learn_resize(state: HeadState, record: JobRecord, event: GangResized) -> None:
    change = record.resizes.answer(event.at_s)
    if change is None:
        return
    if change.after < change.before and not change.is_repair:
        record.tenure.take()
    if change.pause_s is not None:
        _learn_cost(state, record, change, change.pause_s)


def learn_pause(state: HeadState, record: JobRecord, event: StepsReported, again_s: float) -> None:
    """`again_s`: for which the gang makes steps again; that is a part of what a restart costs."""
    change = record.resizes.note_report(event, again_s)
    if change is not None and change.pause_s is not None:
        _learn_cost(state, record, change, change.pause_s)
    elif event.pause_s is not None:
        record.resizes.pause_s += event.pause_s  # of a change that failed, or from before there was a log


def _learn_cost(state: HeadState, record: JobRecord, change: Change, pause_s: float) -> None:
    """Only from planned changes: after a loss the time to notice it counts too, and no plan chose it."""
    record.resizes.pause_s += pause_s
    note_change(record, pause_s)
    if change.is_repair:
        return
    state.costs.learn(change.kind, record, change.after, pause_s, state.now_s)


def is_repair(record: JobRecord, command: LaunchGang | Reconfigure) -> bool:
    """The survivors of a loss are to go on as they are."""
    members = record.gang.members.devices
    return bool(members) and set(command.target.devices) == set(members)


def expect_resize(state: HeadState, record: JobRecord, command: Reconfigure, plan: JobPlan | None) -> None:
    """Note what is to be measured of a resize that was just commanded, and what was expected of it."""
    before, after = record.num_workers, record.target_workers
    is_forced = is_repair(record, command)
    size_before = record.resizes.broken_from if is_forced and record.resizes.broken_from else before
    reason = state.reason_of(record) if plan is None else plan.why()
    change = record.resizes.under_way = Change(
        generation=command.generation,
        at_s=state.now_s,
        before=size_before,
        after=after,
        is_repair=is_forced,
        is_restart=record.spec.elasticity is Elasticity.RESTART,
        reason_code="lost" if is_forced else record.status.reason_code,
        reason=f"goes on with the {after} that are left" if is_forced else reason,
        expected_cost_s=None,
        expected_gain_s=None,
        base=_latest_mark(state, record),
    )
    if plan is not None and not is_forced:
        cost_s = state.costs.expected_s(change.kind, record.spec, record.profile, after)
        change.expected_cost_s = cost_s
        change.expected_gain_s = None if plan.saved_s is None else plan.saved_s - cost_s
    change.rate_before_per_s = _rate_before_per_s(state, record, size_before)  # a belief may raise


def _rate_before_per_s(state: HeadState, record: JobRecord, num_workers: int) -> float:
    """Steps/s at the old size; 0 if unknown.

    What is believed of a job that counts no steps is its user's estimate, in seconds on one worker: of steps
    only measurements tell.
    """
    if record.spec.counts_steps:
        return state.rate_per_s(record, num_workers)
    first, last = record.progress.first_reported, record.progress.reported
    if first is None or last is None or last.generation != record.gang.generation or last.at_s <= first.at_s:
        return 0.0
    return max(0, last.steps - first.steps) / (last.at_s - first.at_s)


def _latest_mark(state: HeadState, record: JobRecord) -> Mark | None:
    """The last report of the gang as it is; if it has made none, what is believed of a live one."""
    last = record.progress.reported
    if last is not None and last.generation == record.gang.generation:
        return Mark(last.at_s, float(last.steps))
    if not record.spec.counts_steps:
        return None
    return Mark(state.now_s, record.progress.believed_steps(state.now_s))
