"""How far the training of a gang is, and what the head and the job's owner are told of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from swell.executors.gang.member import Member
from swell.executors.gang.runtime import GangRuntime
from swell.model.event import StepsReported
from swell.model.job import BetweenSteps
from swell.tally import Tally, tally_of
from swell.wire import messages
from swell.wire.metric_names import LOSS
from swell.wire.numbers import Number, value_of


# ------------------------------------------------------------ what workers say
def note_steps(live: GangRuntime, said: messages.Progress, member: Member) -> None:
    member.steps = live.gang.steps = said.steps
    live.gang.strikes.step_s = said.step_s or live.gang.strikes.step_s
    note_told(live, said.curves)
    _report_steps(live, said)


def note_values(live: GangRuntime, said: messages.Reported, member: Member, is_again: bool = False) -> None:
    """The script has measured something, and made no step since it last said how far it is.

    Args:
        is_again: a former controller may have told of it.
    """
    note_told(live, said.curves)
    live.reductions.note(member.number, live.reporting.names.admitted(said.shares), said.steps)
    if said.refusal:
        live.replies.warn(said.refusal)
    if said.values or said.curves:
        report(live, metrics=measured(said.values), curves=sound(said.curves), is_again=is_again)
    _reduce(live)


def note_told(live: GangRuntime, curves: Mapping[str, Tally]) -> None:
    """What the leader has told of losses."""
    if (losses := curves.get(LOSS)) is not None:
        live.gang.told_steps = losses.last_step


# ------------------------------------------------------------ what is told
def report(
    live: GangRuntime,
    num_workers: int = 0,
    odd_since: int | None = None,
    names_loss: bool = False,
    curves: Mapping[str, Tally] | None = None,
    is_again: bool = False,
    **facts: Any,
) -> None:
    """Tell the head how far the gang is, now or soon. See `Reporting`.

    Args:
        facts: further fields of `StepsReported`.
    """
    told = StepsReported(
        job_id=live.job.job_id,
        generation=live.generation,
        at_s=live.now_s,
        steps=live.gang.steps,
        num_workers=num_workers,
        curves={} if curves is None else dict(curves),
        is_again=is_again and bool(curves),
        **facts,
    )
    live.reporting.note(told, odd_since, names_loss)


def _report_steps(live: GangRuntime, said: messages.Progress) -> None:
    report(
        live,
        num_workers=said.num_workers,
        odd_since=said.odd_since,
        global_batch=said.global_batch,
        step_s=said.step_s,
        loss=None if said.loss is None else value_of(said.loss),
        metrics=measured(said.metrics),
        pause_s=said.pause_s,
        between=None if said.between is None else _between(said.between),
        save_s=_possible(said.save_s),
        curves=sound(said.curves),
        noise_scale=_possible(said.noise_scale),
    )


def report_due(live: GangRuntime) -> None:
    _reduce(live)
    live.reporting.report_due()


def report_last(live: GangRuntime, is_success: bool) -> None:
    """Tell how far a job got that succeeded."""
    _reduce(live, is_last=True)
    if live.gang.final is not None and is_success:
        live.gang.steps = live.gang.final.steps
        report(live, num_workers=len(live.gang.formation.group))
    live.reporting.flush()


def _reduce(live: GangRuntime, is_last: bool = False) -> None:
    """Tell of values that have become one."""
    workers = live.gang.formation.group
    taken = live.reductions.take(workers, live.gang.steps, live.now_s, is_last)
    for name, (reduction, values) in taken.items():
        tally = tally_of(values, len(workers), reduction)
        # The curve of the loss is the gang's own.
        curves = {} if tally is None or name == LOSS else {name: tally}
        report(live, metrics={name: values[-1][1]}, curves=sound(curves))


# ------------------------------------------------------------ what can be: it comes from a user's process
def measured(values: Mapping[str, Number]) -> dict[str, float]:
    return {name: value_of(value) for name, value in values.items()}


def sound(curves: Mapping[str, Tally]) -> dict[str, Tally]:
    """Without what no script can have done: the store relies on it."""
    return {name: tally for name, tally in curves.items() if tally.is_sound}


def _possible(said: float | None) -> float | None:
    """None for what no save can have taken, and no gradients can have: the head relies on it."""
    return said if said is not None and 0.0 <= said < math.inf else None


def _between(ended: messages.EndedEpochs) -> BetweenSteps | None:
    """None for what no script can have done: the head relies on it."""
    if ended.num_steps < 1 or ended.num_epochs < 1 or _possible(ended.time_s) is None:
        return None
    return BetweenSteps(time_s=ended.time_s, num_steps=ended.num_steps, num_epochs=ended.num_epochs)
