"""What commands, the page and clients say of a job: each fact is put into words here, once."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from swell.model.deadline_state import (
    TRIAL,
    DeadlineState,
    deadline_state,
    is_change_refused,
    is_finish_known,
    is_measured,
)
from swell.model.job import LOSS, JobClass, Phase
from swell.model.job_sums import HeldTime
from swell.model.quantities import format_bytes, relative, span, told_devices, told_workers
from swell.model.resize import Resize, Verdict
from swell.script_facts import is_unchecked

if TYPE_CHECKING:
    from swell.model.event import JobSubmitted
    from swell.model.throughput import EstimateSource, JobThroughput
    from swell.script_facts import ScriptFinding
from swell.model.view import JobView, is_set_aside

#: Samples; a noise scale of more is no number that says anything.
MOST_TOLD = 1e11
#: What the earliest deadline that could be promised is called.
OFFERED = "could be promised"

#: From the decision that a deadline could be promised until it is asked for.
TO_TYPE_S = 30.0

#: Stands where there is no value.
NOTHING = "\N{EN DASH}"
#: An estimate of an end so far in the past has merely not been renewed yet.
GRACE_S = 1.0

#: The standing of an open job whose deadline is over.
OVERDUE = "overdue"

SIGNS = {
    "on-track": "on track",
    "no-slack": "no slack",
    "at-risk": "at risk",
    "late": "expected late",
    "unpromised": "not promised",
    OVERDUE: "late",
    "measuring": "not decided yet",
    "free": "no deadline",
    "kept": "kept",
    "missed": "missed",
    "ended-late": "ended late",
    "refused": "refused",
    "not-kept": "not kept",
    "void": NOTHING,
}

OF_PROMISES = {
    "on-track": "It is on track.",
    "no-slack": "It is on track, with no time to spare.",
    "at-risk": "The promise is at risk: the job {why}.",
    "overdue": "The promise is not kept: the deadline is over.",
}


# ---------------------------------------------------------------- the deadline
def standing(view: JobView, now_s: float) -> str:
    """What is to be said of its deadline: a key of `SIGNS`."""
    if view.phase.is_end:
        return _final_standing(view)
    from swell.policies.wording import NO_SLACK  # commands need nothing of policies

    state = deadline_state(view, now_s, view.estimated_finish_s)
    if state is DeadlineState.LATE:
        return OVERDUE
    if view.deadline_s is None:
        return "free"
    if not is_measured(view) or is_set_aside(view):
        return "measuring"
    if state is DeadlineState.AT_RISK:
        return "at-risk" if view.is_promised else "late"
    if not view.is_promised:
        return "unpromised"
    return "no-slack" if NO_SLACK in view.reason else "on-track"


def _final_standing(view: JobView) -> str:
    if view.phase is Phase.REJECTED:
        return "refused"
    if view.deadline_s is None:
        return "free"
    if view.kept is None:
        return "void"
    if is_ended_before(view):
        return "not-kept"
    return "kept" if view.kept else "missed" if view.is_promised else "ended-late"


def kept(view: JobView) -> str:
    """`kept` or `missed`; the phase of a job that ended before its deadline without success. Empty: it had
    nothing to keep, or is open.
    """
    if view.kept is None or view.phase is Phase.REJECTED:
        return ""
    if is_ended_before(view):
        return str(view.phase)
    return "kept" if view.kept else "missed"


def distance(view: JobView, now_s: float) -> str:
    """`in 41 s`, `overdue`, `not yet known`; empty once it has ended, and where no end can be named."""
    if view.estimated_finish_s is None:
        return ""
    if not is_finish_known(view):
        return "not yet known"
    if view.estimated_finish_s < now_s - GRACE_S:
        return "longer than usual" if view.fixed else "overdue"
    return relative(max(view.estimated_finish_s - now_s, 0.1))


def expectation(view: JobView, now_s: float, clock: Callable[[float], str]) -> str:
    """`14:05:22 (in 41 s)`, `14:05:22 (overdue)`, `not yet known`; empty as `distance` is."""
    if view.estimated_finish_s is None or not is_finish_known(view):
        return distance(view, now_s)
    return f"{clock(view.estimated_finish_s)} ({distance(view, now_s)})"


def ended_words(view: JobView) -> list[str]:
    """What became of the deadline of an ended job that had one, in a sentence or two."""
    return [] if view.kept is None or view.finished_s is None else list(_ended(view))


def promise_words(view: JobView, policy: str, standing: str) -> list[str]:
    """What was promised and what became of it, a sentence each, without the times.

    Args:
        policy: the platform's.
        standing: as in the job's row.
    """
    said = list(_ended(view)) if view.phase.is_end else list(_open(view, policy, standing))
    return [*said, *([] if view.phase.is_end else _other_deadline(view))]


def promise_moments(view: JobView) -> dict[str, float]:
    """The times that its sentences are about, to the second."""
    offered = view.counter_offer_s if view.phase is Phase.REJECTED or is_change_refused(view) else None
    return _known({"deadline": view.deadline_s, "asked for": view.asked_deadline_s, OFFERED: offered})


def deadline_words(at_s: float) -> str:
    """The deadline that could be promised as people write one, `2030-01-31T18:00:00`, with time to do so."""
    return datetime.fromtimestamp(math.ceil(at_s + TO_TYPE_S)).isoformat()  # noqa: DTZ006 - of this zone


def offer(view: JobView) -> str:
    """The deadline that could be promised when that of the job was refused; empty: none is known."""
    is_refused = view.phase is Phase.REJECTED or (view.is_unpromised and not view.phase.is_end)
    if not is_refused or view.counter_offer_s is None:
        return ""
    return deadline_words(view.counter_offer_s)


def refusal_of_change(view: JobView) -> str:
    """Why the job has no other deadline, of one that was asked for; empty: it has it, or none was."""
    return view.refusal if is_change_refused(view) and not view.is_unpromised else ""


def is_ended_before(view: JobView) -> bool:
    """Whether it ended without success while there was time left: it is no deadline that it missed."""
    if view.kept is not False or view.finished_s is None or view.deadline_s is None:
        return False
    return view.phase is not Phase.SUCCEEDED and view.finished_s <= view.deadline_s


def _past(view: JobView) -> str:
    """Say how a job has ended: `succeeded`, `was cancelled`, `ended early`."""
    was = "was " if view.phase is Phase.CANCELLED else ""
    return f"{was}{view.phase.replace('-', ' ')}"


def _ended(view: JobView) -> Iterator[str]:
    if view.kept is None or view.finished_s is None or view.deadline_s is None:
        yield "It ended without a deadline to keep." if view.deadline_s is None else f"It {_past(view)}."
        return
    what = "promise" if view.is_promised else "deadline"
    apart = span(view.deadline_s - view.finished_s)
    if is_ended_before(view):
        yield f"The {what} was not kept: it {_past(view)} {apart} before the deadline."
        return
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
        why = "makes no steps" if view.stalled_since_s is not None else "is expected to finish later"
        yield OF_PROMISES.get(standing, "").format(why=why)
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
                yield "It is expected to be late." if view.stalled_since_s is None else "It makes no steps."
        elif standing == "overdue":
            yield "Its deadline is over."


def _other_deadline(view: JobView) -> Iterator[str]:
    if view.asked_deadline_s is not None:
        yield "Another deadline is asked for, and not decided on yet."
    elif refusal := refusal_of_change(view):
        refused = "The promise is void, by its script" if view.is_void else "Another deadline was refused"
        yield f"{refused}: {refusal}"
        yield "The job keeps what it had."


# ---------------------------------------------------------------- resizes
@dataclass(frozen=True, slots=True)
class ResizeRow:
    """One change of size."""

    at_s: float
    size: str
    reason: str
    reason_code: str
    wait: str
    cost: str
    expected_cost: str
    gain: str
    expected_gain: str
    kept_for: str
    verdict: str
    mood: str  #: good, bad or plain


MOODS = {Verdict.PAID: "good", Verdict.FAILED: "bad", Verdict.UNPAID: "warn"}


def resize_rows(view: JobView) -> list[ResizeRow]:
    """Newest first."""
    return [_resize_row(resize) for resize in reversed(view.resize_history)]


def _resize_row(resize: Resize) -> ResizeRow:
    return ResizeRow(
        at_s=resize.at_s,
        size=f"{resize.before} → {resize.after}",
        reason=resize.reason,
        reason_code=resize.reason_code,
        wait=span_text(resize.wait_s),
        cost=span_text(resize.cost_s),
        expected_cost=span_text(resize.expected_cost_s),
        gain=span_text(resize.gain_s, signed=True),
        expected_gain=span_text(resize.expected_gain_s, signed=True),
        kept_for="-" if resize.wait_s is None else span_text(resize.held_s) + " so far" * resize.is_held,
        verdict="freed devices" if resize.verdict is Verdict.MADE_ROOM else str(resize.verdict),
        mood=MOODS.get(resize.verdict, "plain"),
    )


def totals(view: JobView) -> str:
    """`3, took 0.21 s from training; growing saved 14 s`."""
    took = f"{view.resizes}, took {span(view.resize_pause_s)} from training"
    if not view.resize_saved_s:
        return took
    saved_s = view.resize_saved_s
    return f"{took}; growing {'saved' if saved_s >= 0 else 'cost'} {span(saved_s)}"


def span_text(time_s: float | None, signed: bool = False) -> str:
    """A length of time; `+7.3 s` where it may be a loss."""
    if time_s is None:
        return "-"
    sign = ("-" if time_s < 0 else "+") if signed else ""
    return f"{sign}{span(time_s)}"


# ---------------------------------------------------------------- facts
def command_line(view: JobView) -> str:
    """Command line of the job's script, or of a fixed job, quoted for a shell; of longer texts the lines."""
    words = view.args if view.fixed else (view.entry, *view.args)
    lines = (f"<{word.count(chr(10)) + 1} lines>" if "\n" in word else shlex.quote(word) for word in words)
    return " ".join(lines)


def phase(view: JobView, now_s: float) -> str:
    """`running`, `held`, `after train-ab12`, `trial`, `running, no step for 90 s`: the state of a job."""
    if view.is_held:
        return "held" if view.phase is Phase.QUEUED else f"{view.phase}, held"
    if view.awaits:
        return f"after {view.awaits[0]}{', ...' if len(view.awaits) > 1 else ''}"
    if view.phase is Phase.QUEUED and view.reason_code == TRIAL:
        return "trial"
    word = "ended" if is_diverged(view) and view.phase is Phase.SUCCEEDED else str(view.phase)
    if view.stalled_since_s is not None:
        word += f", no step for {span(now_s - view.stalled_since_s)}"
    return f"{word}, loss {view.loss}" if is_diverged(view) else word


def is_diverged(view: JobView) -> bool:
    """Whether its loss is no finite number any more."""
    return view.loss is not None and not math.isfinite(view.loss)


def facts(view: JobView) -> list[tuple[str, str]]:
    """(name, text) of what the job is, what it has and what it uses; times and its progress apart."""
    told = [
        ("class", view.job_class + _standing(view)),
        ("priority", str(view.priority or "")),
        ("weight", "" if view.weight == 1.0 else f"{view.weight:g}"),
        ("tenant", view.tenant),
        ("user", view.user),
        ("group", view.group),
        ("tags", ", ".join(view.tags)),
        ("batch", _batch(view)),
        ("noise", _noise(view)),
        ("workers", "" if view.fixed else _workers(view)),
        ("size", fixed_size(view)),
        ("devices", ", ".join(view.devices)),
        ("booking", view.booking),
        ("kind", view.kind),
        ("pids", _pids(view)),
        ("estimate", _estimate(view)),
        ("last start", _start(view)),
        ("speed", "" if view.step_s is None else f"{view.step_s * 1000:.1f} ms a step"),
        ("stated", _stated(view)),
        ("checkpoints", _checkpoints(view)),
        ("learning", _learning(view)),
        ("verified", _verified(view)),
        ("share", "" if view.share is None else f"{100 * view.share:.3g} %"),
        ("use", _use(view)),
        ("used", _used(view)),
    ]
    return [(name, text) for name, text in told if text]


def _stated(view: JobView) -> str:
    """What its owner states, and whether it counts for good."""
    speeds = ", ".join(f"{rate:g} samples/s with {told_workers(num)}" for num, rate in view.speed.items())
    pauses = (("a growth", view.resize_up_s), ("a shrink", view.resize_down_s))
    told = [speeds, *(f"{name} takes {span(pause_s)}" for name, pause_s in pauses if pause_s is not None)]
    text = "; ".join(filter(None, told))
    until = "whatever is measured" if view.keeps_estimates else "until measured"
    return f"{text} ({until})" if text else ""


def _checkpoints(view: JobView) -> str:
    """How often it is saved, and why as often."""
    if view.checkpoint_interval_s is None:
        return ""
    told = f"every {span(view.checkpoint_interval_s)}"
    if view.mean_time_to_loss_s is None:
        told += ", as it was submitted"
    if view.save_s is not None:
        told += f"; each takes {span(view.save_s)}"
    if view.mean_time_to_loss_s is not None:
        told += f", and a loss is expected once in {span(view.mean_time_to_loss_s)}"
    return told


def _verified(view: JobView) -> str:
    """Up to which step new workers have computed the same, and why the latest one could not."""
    told = "" if view.verified_steps is None else f"up to step {view.verified_steps}"
    why_not = view.unverified and f"not {'since then' if told else 'yet'}: {view.unverified}"
    return "; ".join(filter(None, [told, why_not]))


def finding_lines(view: JobView) -> list[str]:
    """What is known of its script and its sizes, and what follows, a line each."""
    return [_finding_text(view, found) for found in view.findings]


def findings_by_effect(view: JobView) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tell the findings that limit the job to its smallest size, and those that do not."""
    limits = tuple(_finding_text(view, found) for found in view.findings if found.name in view.held_by)
    known = tuple(_finding_text(view, found) for found in view.findings if found.name not in view.held_by)
    return limits, known


def _finding_text(view: JobView, found: ScriptFinding) -> str:
    unlimited = "not checked" if is_unchecked(found.name) else "known difference"
    accepted = "accepted" if found.holds else unlimited
    state = f"limited to {told_workers(view.min_workers)}" if found.name in view.held_by else accepted
    place = f" at {found.place}" if found.place else ""
    return f"{state}, {found.name}{place}: {found.text}"


def moments(view: JobView, now_s: float) -> dict[str, float]:
    """Times of its life by their names; those of its promise apart."""
    is_waiting = view.retry_s is not None and view.retry_s > now_s and not view.phase.is_end
    times = {
        "submitted": view.submitted_s,
        "started": view.started_s,
        "next try": view.retry_s if is_waiting else None,
        "finished": view.finished_s,
    }
    return _known(times)


def _known(times: Mapping[str, float | None]) -> dict[str, float]:
    return {name: at_s for name, at_s in times.items() if at_s is not None}


def done_share(view: JobView) -> float | None:
    """Share of its steps that are done; None: how many there are is not known, or it was refused."""
    if not view.total_steps or view.phase is Phase.REJECTED:
        return None
    return min(1.0, view.steps / view.total_steps)


def done(view: JobView) -> str:
    """`42%`; `744 st.` of a job whose total is unknown; `-` before the first step."""
    if (share := done_share(view)) is not None:
        return f"{share:.0%}"
    return f"{view.steps} st." if view.steps else "-"


def latest(view: JobView) -> dict[str, float]:
    """The numbers that it has reported last, by their names."""
    return {**({} if view.loss is None else {LOSS: view.loss}), **view.metrics}


def _standing(view: JobView) -> str:
    """Whether its deadline is a promise, or why it is none."""
    if view.is_unpromised:
        return f", not promised: {view.refusal}"
    return ", promised" if view.is_promised else ""


def _workers(view: JobView) -> str:
    most = "or more" if view.max_workers is None else f"to {view.max_workers}"
    least = view.min_workers
    allowed = told_workers(least) if least == view.max_workers else f"{least} {most}"
    now = "" if view.phase.is_end else f"{view.workers} now, "
    each = f", {told_devices(view.devices_per_worker)} each" if view.devices_per_worker > 1 else ""
    return f"{now}{allowed} allowed{each}"


def fixed_size(view: JobView) -> str:
    """`4 devices of 2 nodes for 6 h at most`; empty of a job that has other sizes."""
    if view.fixed is None:
        return ""
    nodes = f" of {view.min_workers} nodes" if view.min_workers > 1 else ""
    told = [f"{told_devices(view.min_workers * view.devices_per_worker)}{nodes}"]
    told[0] += f" for {span(view.fixed.time_s)} at most"
    told += ["may be suspended"] if view.fixed.may_suspend else []
    told += [f"starts again up to {view.fixed.retries} times"] if view.fixed.retries else []
    told += [f"ends after {span(view.fixed.idle_s)} without use"] if view.fixed.idle_s else []
    told += [f"serves port {view.fixed.port}"] if view.fixed.port else []
    return ", ".join(told)


def _batch(view: JobView) -> str:
    """The script of a restart job cuts its batches itself; what was not told when it was submitted is 1."""
    if view.batch_per_worker is not None:
        return f"{view.batch} samples a step, {view.batch_per_worker} for each worker"
    if view.max_batch is not None:
        rate = f"learning rate of {view.global_batch}"
        return f"{view.batch} samples a step, {view.min_batch} to {view.max_batch} wanted, {rate}"
    is_known = view.global_batch > (view.elasticity != "live")
    return f"{view.global_batch} samples a step" if is_known else ""


def _noise(view: JobView) -> str:
    """What the noise of its gradients says of its batch; empty while that is not known."""
    scale, own, batch = view.noise_scale, view.global_batch, view.batch
    if scale is None:
        return ""
    told = (
        f"noise scale of the gradients {scale:,.0f} samples"
        if scale < MOST_TOLD
        else "the gradients are all noise"
    )
    if not batch or batch == own:
        return told
    share = (scale + own) / (scale + batch) if scale + batch else 1.0
    return f"{told}; a sample in {batch} is worth {share:.2f} of one in {own}"


def _learning(view: JobView) -> str:
    """Which metric shows how much a job still learns; empty unless that matters or was asked for."""
    if view.share is None and view.metric == LOSS:
        return ""
    lacks = "" if view.metric in latest(view) else "; not reported yet"
    return f"told by {view.metric}, which learning {'raises' if view.metric_rises else 'lowers'}{lacks}"


def _use(view: JobView) -> str:
    """`73%, 55.2 GiB of 80 GiB, 310 W, 61 °C`: what its devices do now."""
    if (read := view.reading) is None:
        return ""
    told = [f"{read.use:.0%}"]
    if read.memory_bytes is not None and read.total_memory_bytes is not None:
        told.append(f"{format_bytes(read.memory_bytes)} of {format_bytes(read.total_memory_bytes)}")
    told += [] if read.power_w is None else [f"{read.power_w:.0f} W"]
    told += [] if read.temperature_c is None else [f"{read.temperature_c} °C"]
    told += [f"slowed down by {read.slowed_by}"] if read.slowed_by else []
    return ", ".join(told)


def _used(view: JobView) -> str:
    """Use of its devices, CPU time and I/O of the job so far, and memory that its present workers use."""
    devices = ""
    if view.used:
        (at_s, used_s), held = view.used[-1], HeldTime.of(view)
        held_s = held.device_s(-math.inf, at_s if view.finished_s is None else math.inf)
        devices = f"{span(min(used_s, held_s))} of {span(held_s)} of device time"
    cpu = "" if view.cpu_s is None else f"{span(view.cpu_s)} of CPU time"
    memory = f"{format_bytes(view.memory_used_bytes)} resident" if view.memory_used_bytes else ""
    disk = _both(view.read_bytes, "read", view.written_bytes, "written")
    return ", ".join(filter(None, (devices, cpu, memory, disk)))


def _both(one: int | None, how: str, other: int | None, how_other: str) -> str:
    """Two numbers of bytes; empty where they are not measured, or both are 0."""
    if not (one or other):
        return ""
    return f"{format_bytes(one or 0)} {how}, {format_bytes(other or 0)} {how_other}"


def _estimate(view: JobView) -> str:
    """What its owner expected of its time on one worker, and how wrong that was."""
    if view.estimate_s is None:
        return ""
    if view.fixed:
        return f"{span(view.estimate_s)}, as its owner's earlier jobs of this name took"
    told = f"{span(view.estimate_s)} on one worker"
    if not view.alone_s:
        return told
    error = view.estimate_s / view.alone_s - 1.0
    return f"{told}; measured {span(view.alone_s)} ({abs(error):.0%} too {'low' if error < 0 else 'high'})"


def _start(view: JobView) -> str:
    """How long the latest start took. Starts within a second are not told."""
    return "" if view.start_s is None or view.start_s < 1.0 else span(view.start_s)


def _pids(view: JobView) -> str:
    """Pids of the live workers, and the number of processes before them."""
    num_former = len(set(view.pids).difference(view.live_pids))
    former = [f"{num_former} former"] if num_former else []
    return ", ".join([*map(str, view.live_pids), *former])


def submission_facts(submitted: JobSubmitted, is_ours: bool) -> list[tuple[str, str]]:
    """(name, text) of what was asked for with the job.

    Values of environment variables may be secrets: names are told, to those who may change the job.
    """
    spec = submitted.spec
    told = [
        ("working folder", spec.workdir),
        ("interpreter", spec.python),
        ("image", spec.image),
        ("environment", ", ".join([*dict(spec.env), *spec.secrets]) if is_ours else ""),
        ("requirements", spec.uv[:12]),
        ("mounts", ", ".join(f"{one.source}:{one.target}" for one in spec.mounts)),
        ("ends after", _end(submitted)),
        ("seed", str(spec.seed)),
        ("memory limit", "" if spec.memory_bytes is None else format_bytes(spec.memory_bytes)),
        ("needs", ", ".join(spec.needs)),
    ]
    return [(name, text) for name, text in told if text]


def _end(submitted: JobSubmitted) -> str:
    end = submitted.spec.end
    lengths = {"steps": end.steps, "epochs": end.epochs, "samples": end.samples}
    told = [f"{number:g} {what}" for what, number in lengths.items() if number is not None]
    return " or ".join([*told, *([] if end.target is None else [str(end.target)])])


def source_text(source: EstimateSource) -> str:
    """What an estimate was made from, in plain words."""
    return "step + all-reduce" if source == "parts" else str(source)


def throughput_text(found: JobThroughput) -> str:
    """`1: 120.5 samples/s (trial), 2: 230.1 (step + all-reduce), 4: 400.0 (extrapolated)`."""
    told = [f"{one.workers}: {one.samples_per_s:.1f}%s ({source_text(one.source)})" for one in found.best]
    return ", ".join(text % (" samples/s" if place == 0 else "") for place, text in enumerate(told))
