"""What the page of a job says in sentences: its promise, its resizes, and its facts."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.admission_status import is_change_refused
from swell.api.durations import format_duration
from swell.api.resize_words import seconds
from swell.model.counted import told_devices
from swell.model.deadline_state import is_measured
from swell.model.event import JobSubmitted
from swell.model.job import LOSS, JobClass, Phase
from swell.model.lengths import span
from swell.model.resize import Resize, Verdict
from swell.model.sizes import format_bytes
from swell.model.view import JobView

#: Process ids that are listed.
MOST_PIDS = 16

OF_PROMISES = {
    "on-track": "It is on track.",
    "no-slack": "It is on track, with no time to spare.",
    "at-risk": "The promise is at risk: the job is expected to finish later.",
    "overdue": "The promise is not kept: the deadline is over.",
}


# ---------------------------------------------------------------- the promise
def promise_words(view: JobView, policy: str, standing: str) -> list[str]:
    """What was promised and what became of it, a sentence each; times stand beside them.

    Args:
        policy: the platform's.
        standing: as in the job's row.
    """
    said = list(_ended(view)) if view.phase.is_end else list(_open(view, policy, standing))
    return [*said, *([] if view.phase.is_end else _other_deadline(view))]


def promise_moments(view: JobView) -> list[tuple[str, float]]:
    """The times that its sentences are about, to the second."""
    offered = view.counter_offer_s if view.phase is Phase.REJECTED or is_change_refused(view) else None
    moments = {"deadline": view.deadline_s, "asked for": view.asked_deadline_s, "could be promised": offered}
    return [(name, round(at_s)) for name, at_s in moments.items() if at_s is not None]


def offer(view: JobView) -> str:
    """The deadline with which a refused job can be retried, as people write one; empty: none is known.

    Said as a length of time it does not grow old while it is read; a second is for the way there.
    """
    if view.phase is not Phase.REJECTED or view.counter_offer_s is None:
        return ""
    return f"now+{format_duration(math.ceil(view.counter_offer_s - view.submitted_s) + 1)}"


def _ended(view: JobView) -> Iterator[str]:
    if view.phase is Phase.REJECTED:
        yield f"Its deadline was refused: {view.reason}"
        if view.counter_offer_s is not None:
            yield "Retry it with the deadline that could be promised then, or a later one."
        return
    if view.kept is None or view.finished_s is None or view.deadline_s is None:
        yield "It ended without a deadline to keep." if view.deadline_s is None else f"It was {view.phase}."
        return
    what = "promise" if view.is_promised else "deadline"
    apart = span(view.deadline_s - view.finished_s)
    yield (
        f"The {what} was kept: it ended {apart} before the deadline."
        if view.kept
        else f"The {what} was missed: it ended {apart} after the deadline."
    )


def _open(view: JobView, policy: str, standing: str) -> Iterator[str]:
    if view.deadline_s is None:
        within = ", within its tenant's quota" if view.reason_code == "quota" else ""
        yield f"It has no deadline: it gets what promises to other jobs leave{within}."
    elif view.is_promised:
        yield "Swell has promised that it ends before its deadline."
        yield OF_PROMISES.get(standing, "")
    elif view.is_unpromised:
        yield f"Its deadline could not be promised: {view.refusal}"
        yield "It runs as a soft job, and tries to meet it."
    elif view.job_class is JobClass.STRICT:
        is_decided = is_measured(view)
        yield f"Policy {policy} makes no promises." if is_decided else "Its deadline is not decided on yet."
    else:
        yield "Its deadline is soft: finishing late still counts, and promises to other jobs come first."
        if standing == "late":
            if view.estimated_finish_s is None:
                yield "Nothing that is there can run it, so no end can be named."
            else:
                yield "It is expected to be late."
        elif standing == "overdue":
            yield "Its deadline is over."


def _other_deadline(view: JobView) -> Iterator[str]:
    if view.asked_deadline_s is not None:
        yield "Another deadline is asked for, and not decided on yet."
    elif is_change_refused(view) and not view.is_unpromised:
        yield f"Another deadline was refused: {view.refusal}"
        yield "The job keeps what it had."


# ---------------------------------------------------------------- resizes
@dataclass(frozen=True, slots=True)
class ResizeRow:
    """One change of size."""

    at_s: float
    size: str
    reason: str
    wait: str
    cost: str
    expected_cost: str
    gain: str
    expected_gain: str
    held: str
    verdict: str
    mood: str  #: good, bad or plain


MOODS = {Verdict.PAID: "good", Verdict.FAILED: "bad", Verdict.UNPAID: "warn"}


def resize_rows(view: JobView) -> list[ResizeRow]:
    """Newest first."""
    return [_resize_row(resize) for resize in reversed(view.resize_history)]


def _resize_row(resize: Resize) -> ResizeRow:
    held = "-" if resize.wait_s is None else seconds(resize.held_s)
    return ResizeRow(
        at_s=resize.at_s,
        size=f"{resize.before} → {resize.after}",
        reason=resize.reason,
        wait=seconds(resize.wait_s),
        cost=seconds(resize.cost_s),
        expected_cost=seconds(resize.expected_cost_s),
        gain=seconds(resize.gain_s, signed=True),
        expected_gain=seconds(resize.expected_gain_s, signed=True),
        held=f"{held} so far" if resize.is_held and resize.wait_s is not None else held,
        verdict=str(resize.verdict),
        mood=MOODS.get(resize.verdict, "plain"),
    )


# ---------------------------------------------------------------- facts
def command_line(view: JobView) -> str:
    """Command line of the job's script, quoted for a shell."""
    return shlex.join((view.entry, *view.args))


def facts(view: JobView, submitted: JobSubmitted | None, is_ours: bool) -> list[tuple[str, str]]:
    """(name, text) of what is known of the job, times and lists apart.

    Args:
        submitted: None: it ended under a version that did not keep this.
        is_ours: told to somebody who may change the job.
    """
    told = [
        ("id", view.id),
        ("class", str(view.job_class).replace("_", " ")),
        ("tenant", view.tenant),
        ("workers", _workers(view)),
        ("devices", ", ".join(view.devices)),
        ("kind", view.kind),
        ("batch", _batch(view)),
        ("speed", "" if view.step_s is None else f"{view.step_s * 1000:.1f} ms a step"),
        ("elasticity", str(view.elasticity)),
        ("learning", _learning(view)),
        ("share of cores", "" if view.share is None else f"{100 * view.share:.3g} %"),
        ("CPU time", "" if view.cpu_s is None else span(view.cpu_s)),
        ("memory", f"{format_bytes(view.memory_used_bytes)} resident" if view.memory_used_bytes else ""),
        ("processes", _pids(view)),
        *([] if submitted is None else _submission(submitted, is_ours)),
    ]
    return [(name, text) for name, text in told if text]


def moments(view: JobView) -> list[tuple[str, float]]:
    """(name, time) of its life."""
    times = {
        "submitted": view.submitted_s,
        "started": view.started_s,
        "next try": None if view.phase.is_end else view.retry_s,
        "finished": view.finished_s,
    }
    return [(name, at_s) for name, at_s in times.items() if at_s is not None]


def _workers(view: JobView) -> str:
    most = " or more" if view.max_workers is None else f" to {view.max_workers}"
    wanted = f"{view.min_workers}{'' if view.min_workers == view.max_workers else most}"
    each = told_devices(view.devices_per_worker)
    return f"{view.workers} now, {wanted} wanted, {each} each"


def _batch(view: JobView) -> str:
    if view.batch_per_worker is not None:
        return f"{view.batch} samples a step, {view.batch_per_worker} for each worker"
    if view.max_batch is not None:
        return f"{view.batch} samples a step, {view.min_batch} to {view.max_batch} wanted"
    is_known = view.elasticity == "live" or view.global_batch > 1
    return f"{view.global_batch} samples a step" if is_known else ""


def _learning(view: JobView) -> str:
    """Which metric shows how much a job still learns; empty unless that matters or was asked for."""
    if view.share is None and view.metric == LOSS:
        return ""
    return f"told by {view.metric}, which learning {'raises' if view.metric_rises else 'lowers'}"


def _pids(view: JobView) -> str:
    live = [str(pid) for pid in view.live_pids[:MOST_PIDS]]
    num_more = len(view.live_pids) - len(live)
    num_former = len(set(view.pids).difference(view.live_pids))
    rest = [f"{number} {what}" for number, what in ((num_more, "more"), (num_former, "former")) if number]
    return ", ".join([*live, *rest])


def _submission(submitted: JobSubmitted, is_ours: bool) -> list[tuple[str, str]]:
    """Values of environment variables may be secrets: names are told, to few."""
    spec = submitted.spec
    memory = "" if spec.memory_bytes is None else format_bytes(spec.memory_bytes)
    return [
        ("working folder", spec.workdir),
        ("interpreter", spec.python),
        ("image", spec.image),
        ("environment", ", ".join(name for name, _ in spec.env) if is_ours else ""),
        ("ends after", _end(submitted)),
        ("seed", str(spec.seed)),
        ("memory limit", memory),
        ("needs", ", ".join(spec.needs)),
    ]


def _end(submitted: JobSubmitted) -> str:
    end = submitted.spec.end
    lengths = {"steps": end.steps, "epochs": end.epochs, "samples": end.samples}
    told = [f"{number:g} {what}" for what, number in lengths.items() if number is not None]
    return " or ".join([*told, *([] if end.target is None else [str(end.target)])])
