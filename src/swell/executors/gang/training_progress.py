"""How far the training of a gang is, and what the head and the job's owner are told of it."""

from __future__ import annotations

import msgspec

from swell.executors.gang.progress import DRIFT, steps_report, values_report
from swell.executors.gang.runtime import GangRuntime
from swell.model.event import StepsReported
from swell.tally import tally_of
from swell.wire import messages
from swell.wire.metric_names import LOSS
from swell.wire.numbers import spelled


# ------------------------------------------------------------ what workers say
def note_steps(live: GangRuntime, said: messages.Progress) -> None:
    report = steps_report(live.job.job_id, live.generation, said, live.now_s)
    live.reporting.note(report, said.odd_since)


def note_values(live: GangRuntime, said: messages.Reported, worker: int, is_again: bool = False) -> None:
    """The script has measured something, and made no step since it last said how far it is.

    Args:
        is_again: a former controller may have told of it.
    """
    names = live.reporting.names
    live.reductions.note(worker, names.admitted(said.shares), said.steps)
    if said.refusal:
        live.replies.warn(said.refusal)
    if said.values or said.curves:
        report = _values_report(live, said)
        live.reporting.note(msgspec.structs.replace(report, is_again=is_again and bool(report.curves)))
    _reduce(live)


def note_drift(live: GangRuntime, said: messages.Drifted) -> None:
    if told := live.drift.note(said):
        live.replies.warn(told, about=DRIFT)


def note_last(live: GangRuntime, said: messages.Finished, is_leader: bool) -> None:
    """The leader's word counts, or else the first."""
    if live.gang.final is None or is_leader:
        live.gang.final = said
        live.gang.steps = said.steps


def begin_group(live: GangRuntime, round: int) -> None:
    """A worker has joined the group of this round, which trains from where `steps` is."""
    live.reductions.begin(round, live.gang.steps)


# ------------------------------------------------------------ what is told
def report_due(live: GangRuntime) -> None:
    _reduce(live)
    live.reporting.report_due()


def report_last(live: GangRuntime, is_success: bool) -> None:
    """Tell how often replicas differed, and how far a job got that succeeded."""
    if told := live.drift.rest():
        live.replies.warn(told, about=DRIFT)
    _reduce(live, is_last=True)
    final, formation = live.gang.final, live.gang.formation
    if final is not None and is_success:
        live.gang.steps = final.steps
        last = messages.Progress(
            generation=formation.round,
            steps=final.steps,
            num_workers=len(formation.group),
            loss=final.loss,
            odd_since=final.odd_since,
            metrics=final.metrics,
        )
        note_steps(live, last)
    live.reporting.flush()


def _reduce(live: GangRuntime, is_last: bool = False) -> None:
    """Tell of values that have become one."""
    workers = live.gang.formation.group
    taken = live.reductions.take(workers, live.gang.steps, live.now_s, is_last)
    for name, (reduction, values) in taken.items():
        tally = tally_of(values, len(workers), reduction)
        # The curve of the loss is the gang's own.
        curves = {} if tally is None or name == LOSS else {name: tally}
        told = messages.Reported(values={name: spelled(values[-1][1])}, curves=curves)
        live.reporting.note(_values_report(live, told))


def _values_report(live: GangRuntime, said: messages.Reported) -> StepsReported:
    return values_report(live.job.job_id, live.generation, live.gang.steps, said, live.now_s)
