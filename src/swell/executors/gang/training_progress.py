"""How far the training of a gang is, and what the head and the job's owner are told of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from swell.executors.gang.gang_record import Member
from swell.executors.gang.runtime import GangRuntime
from swell.model.event import JobLinked, StepsReported
from swell.tally import Tally, tally_of
from swell.wire import messages
from swell.wire.reports import LOSS, Number, link_fault, value_of

#: A controller makes fewer reports of a gang than two to the power of this.
REPORT_BITS = 40

REMEDY = (
    "lower the learning rate, clip gradients (clip_grad_norm_) or look for such values in the "
    "data; with --stop-on-nan a job ends there, with its last good state saved"
)

#: In place of a name: a blank is in no name of a metric.
THE_LOSS = "the loss"


# ------------------------------------------------------------ what workers say
def note_steps(live: GangRuntime, said: messages.Progress, member: Member) -> None:
    """The gang has made steps."""
    member.steps = live.gang.steps = said.steps
    live.gang.step_s = said.step_s or live.gang.step_s
    times = zip(live.gang.in_group(), said.sample_s, strict=False)
    is_of_group = len(said.sample_s) == len(live.gang.formation.group) == len(live.gang.in_group())
    report(
        live,
        num_workers=said.num_workers,
        loss=None if said.loss is None else value_of(said.loss),
        odd_since=said.odd_since,
        metrics=said.metrics,
        curves=said.curves,
        global_batch=said.global_batch,
        step_s=said.step_s,
        sample_s={one.slot[0]: time_s for one, time_s in times} if is_of_group else {},
        pause_s=said.pause_s,
        between=said.between,
        save_s=said.save_s,
        noise_scale=said.noise_scale,
    )


def note_values(live: GangRuntime, said: messages.Reported, member: Member) -> None:
    """The script has measured something, and made no step since it last said how far it is."""
    live.reductions.note_shares(member.number, live.names.admitted(said.shares), said.steps)
    if said.refusal:
        live.warn(said.refusal)
    note_links(live, said)
    if said.values or said.curves:
        report(live, metrics=said.values, curves=said.curves)
    reduce_values(live)


def note_links(live: GangRuntime, said: messages.Reported) -> None:
    """The output of a worker has told addresses."""
    for name, url in said.links.items():
        if not link_fault(name, url):
            live.report(JobLinked(job_id=live.job.job_id, at_s=live.now_s, name=name, url=url))


# ------------------------------------------------------------ what is told
def report(
    live: GangRuntime,
    num_workers: int = 0,
    loss: float | None = None,
    odd_since: int | None = None,
    names_loss: bool = False,
    metrics: Mapping[str, Number] | None = None,
    curves: Mapping[str, Tally] | None = None,
    **facts: Any,
) -> None:
    """Tell the head how far the gang is.

    Its mark is higher than that of any report before, also after a change of controller.

    Args:
        odd_since: the step since which the loss is no number.
        names_loss: how the loss comes about is the script's own affair: it is a value like any other.
        facts: further fields of `StepsReported`.
    """
    if num_workers:
        live.note_step()
    live.num_reports += 1
    told = StepsReported(
        job_id=live.job.job_id,
        generation=live.gang.generation or live.gang.replies.generation,
        at_s=live.now_s,
        steps=live.gang.steps,
        num_workers=num_workers,
        loss=loss,
        metrics=live.names.admitted({name: value_of(value) for name, value in (metrics or {}).items()}),
        curves=live.names.admitted(curves or {}),
        mark=(live.gang.num_takeovers << REPORT_BITS) + live.num_reports,
        **facts,
    )
    if refusal := live.names.take_refusal():
        live.warn(refusal)
    if LOSS in told.curves:
        live.gang.told_steps = told.curves[LOSS].last_step
    of_loss = {} if loss is None else {LOSS if names_loss else THE_LOSS: loss}
    _warn_of_odd(live, of_loss | told.metrics, odd_since)
    live.report(told)


def _warn_of_odd(live: GangRuntime, values: Mapping[str, float], odd_since: int | None) -> None:
    """Once for each name. The job's next gang, which goes on from a checkpoint, warns of them again."""
    for name, value in values.items():
        is_told = name in live.odd or (name == THE_LOSS and live.job.spec.stop_on_nan)  # by the job's end
        if math.isfinite(value) or is_told:
            continue
        live.odd.add(name)
        told = f"the script reports {name} as {value} after step {live.gang.steps}"
        if name == THE_LOSS:
            since = live.gang.steps if odd_since is None else odd_since
            told = f"the loss is {value} since step {since}: {REMEDY}"
        live.warn(told)


def report_last(live: GangRuntime, is_success: bool) -> None:
    """Tell how far a job got that succeeded."""
    reduce_values(live, is_last=True)
    if live.gang.final is not None and is_success:
        live.gang.steps = live.gang.final.steps
        report(live, num_workers=len(live.gang.formation.group))


def reduce_values(live: GangRuntime, is_last: bool = False) -> None:
    """Tell of values of several workers that have become one."""
    workers = live.gang.formation.group
    if taken := live.reductions.take_reduced(workers, live.gang.steps, live.now_s, is_last):
        latest = {name: values[-1][1] for name, (_, values) in taken.items()}
        tallies = {name: tally_of(values, len(workers), how) for name, (how, values) in taken.items()}
        # The curve of the loss is the gang's own.
        curves = {name: one for name, one in tallies.items() if one is not None and name != LOSS}
        report(live, metrics=latest, curves=curves)
