"""Asynchronous successive halving: which trials of a group stop at which rung.

A trial is compared once at each rung, with those that got there before it, and goes on at once or is saved
and ends. So what happens follows from the order of the reports in the journal, and from nothing else.

References: Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020, section 3.
Deviates: a trial that is good enough trains on without a pause, and one that is not ends, where ASHA pauses
each trial at each rung and may promote it later. See docs/adr/0060.
"""

from __future__ import annotations

import math

from swell.core.bracket import bracket_of
from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.event import StepsReported
from swell.model.halving import MetricValue, RungUnit

#: Topic of the warning of a trial that reports no value by which it could be compared.
TOPIC = "halving"


def enter_bracket(state: HeadState, record: JobRecord, earlier: str) -> None:
    """A trial is submitted. One that was there before, as job `earlier`, keeps its place at the rungs.

    So its values count once, and it is compared at the rungs that it has not reached yet.
    """
    bracket, trial = bracket_of(state.brackets, record.spec.group), record.trial
    bracket.enter(record.id)
    for number, rung in enumerate(bracket.rungs, 1):
        if earlier in rung.values:
            trial.rung = number
            trial.rank, trial.num_there = rung.replace(earlier, record.id, record.spec.metric_rises)
    if trial.rung:
        state.tell(record, "promoted", f"keeps the place of {earlier}: {_standing(record)}")


def note_evaluation(state: HeadState, record: JobRecord, event: StepsReported) -> None:
    """Compare the trial at each rung that the report shows it to have reached."""
    halving = record.spec.halving
    if halving is None or record.trial.stopped:
        return
    if event.evaluation is None:
        _note_silence(state, record, event.steps)
        return
    record.trial.num_reports += event.evaluation.num_values
    record.status.warn(TOPIC, "")
    while not record.trial.stopped and _has_reached_next(record, event.evaluation):
        _compare(state, record, event.evaluation.value)


def _has_reached_next(record: JobRecord, evaluation: MetricValue) -> bool:
    """Whether the trial is at its next rung. There is none at its end, where it is done anyway."""
    place = _rung_steps(record, record.trial.rung + 1)
    if place is None:
        halving = record.spec.halving
        return halving is not None and record.trial.num_reports >= halving.rung_at(record.trial.rung + 1)
    total_steps = record.progress.total_steps
    return evaluation.steps >= place and (total_steps is None or place < total_steps)


def _rung_steps(record: JobRecord, number: int) -> float | None:
    """The place of the rung in steps; None where rungs are counted in reports."""
    halving = record.spec.halving
    if halving is None or halving.by is RungUnit.REPORTS:
        return None
    place = halving.rung_at(number)
    if halving.by is RungUnit.STEPS:
        return place
    samples = record.profile.samples_per_epoch if record.profile else 0
    return place * -(-samples // record.spec.global_batch) if samples else math.inf


def _compare(state: HeadState, record: JobRecord, value: float) -> None:
    halving, trial, spec = record.spec.halving, record.trial, record.spec
    if halving is None:
        return
    rung = bracket_of(state.brackets, spec.group).rung(trial.rung + 1)
    trial.rung += 1
    trial.rank, trial.num_there = rung.place(record.id, value, spec.metric_rises)
    standing = _standing(record)
    if trial.rank > halving.num_promoted(trial.num_there):
        trial.stopped = f"stopped early: {standing}"
        state.explain(record, "stopping_early", f"is to be saved and to end: {standing}")
    else:
        state.tell(record, "promoted", f"goes on: {standing}")


def _standing(record: JobRecord) -> str:
    trial = record.trial
    return f"rank {trial.rank} of {trial.num_there} at rung {trial.rung} by {record.spec.metric}"


def _note_silence(state: HeadState, record: JobRecord, steps: int) -> None:
    """Warn of a trial whose gang has trained for as long as to rung 2 and has never reported the metric."""
    place = _rung_steps(record, 2)
    if record.trial.num_reports or place is None or steps - record.progress.first_step < place:
        return
    if record.status.warn(TOPIC, _silent(record)):
        state.tell(record, "warned", _silent(record))


def told_silence(record: JobRecord) -> str:
    """What is said at the end of a trial that never reported the metric; empty for any other job."""
    return f"; {_silent(record)}" if record.spec.halving is not None and not record.trial.num_reports else ""


def _silent(record: JobRecord) -> str:
    metric, group = record.spec.metric, record.spec.group
    known = ", ".join(sorted(record.status.metrics)) or "no metric"
    return (
        f"its script has not reported {metric}, by which trials of {group} are compared, so it is never "
        f"stopped early: report it (`run.report({metric}=...)`), or compare by what is reported ({known})"
    )
