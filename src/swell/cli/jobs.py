"""`swell jobs`, `show`, `explain` and `cancel`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.resize_words import totals
from swell.cli.clock import Times, WallTimes, clock
from swell.cli.finish import distance, expectation
from swell.cli.options import JobName, Json, Run, RunPolicy, State
from swell.cli.output import console, print_json, print_table, warn
from swell.cli.resizes import HEADINGS, resize_row
from swell.cli.resolve import find_job
from swell.cli.run import recorded
from swell.model.counted import told_devices
from swell.model.lengths import span
from swell.model.sizes import format_bytes

if TYPE_CHECKING:
    from swell.model.view import JobView, Story

#: Jobs that a list shows unless it is told otherwise: a few screens.
SHOWN_JOBS = 100


def list_jobs(
    phase: Annotated[
        str | None,
        typer.Option(
            metavar="PHASE,...",
            help="Only jobs in these phases: queued, starting, running, stopping, succeeded, "
            "failed, cancelled, rejected; `open` means the first four, `ended` the last "
            "four.",
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="TENANT", help="Only jobs of this tenant.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Leave out jobs that ended before this time: 2h for two hours ago, or 2030-01-31T18:00:00.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="List at most N jobs: those with devices first, then waiting ones, then the "
            "newest ended ones. 0: all. Default: 100; all with --json.",
        ),
    ] = None,
    state: State = None,
    json: Json = False,
) -> None:
    """List jobs, oldest first."""
    from swell.api.client import connect
    from swell.cli.selection import parse_phases, parse_since, select

    phases, begin_s = parse_phases(phase), parse_since(since)
    if limit is None:
        limit = 0 if json else SHOWN_JOBS
    with connect(state) as client:
        cluster = client.cluster()
        chosen = select(client, phases, begin_s(cluster.now_s), limit, tenant)
    if stalled := cluster.warnings.get("journal"):
        warn(stalled)
    if json:
        print_json(chosen.views)
        return
    if chosen.views:
        kinds = {node.kind for node in cluster.nodes} | {view.kind for view in chosen.views if view.kind}
        headings = ("JOB", "CLASS", "PHASE", "SIZE", "DONE", "DEADLINE", "FINISH", "KIND")
        num_columns = len(headings) - (len(kinds) < 2)
        rows = [_row(view, cluster.now_s)[:num_columns] for view in chosen.views]
        print_table(headings[:num_columns], rows, wrapping=0)
    elif phase is None and since is None and tenant is None:
        print("no jobs yet; submit one with `swell submit`")
    else:
        print("no such jobs")
    if chosen.num_left_out:
        print(f"\n{chosen.num_left_out:,} more: {chosen.left_out}; --limit 0 lists them too")


def _row(view: JobView, now_s: float) -> tuple[str, ...]:
    return (
        view.id,
        view.job_class,
        _phase(view),
        _size(view),
        done(view),
        "-" if view.deadline_s is None else clock(view.deadline_s, now_s),
        _finish(view, now_s),
        view.kind or "-",
    )


def _size(view: JobView) -> str:
    """Workers; and the batch, where that may change."""
    if not view.workers:
        return "-"
    is_fixed = view.max_batch is None and view.batch_per_worker is None
    return str(view.workers) if is_fixed else f"{view.workers}, batch {view.batch}"


def _phase(view: JobView) -> str:
    """Phase of the job, with its loss if that is not a finite number: then its training has diverged."""
    is_odd = view.loss is not None and not math.isfinite(view.loss)
    return f"{view.phase}, {view.loss}" if is_odd else view.phase


def done(view: JobView) -> str:
    """`42%`; `744 st.` of a job whose total is unknown; `-` before the first step."""
    if view.total_steps:
        return f"{min(1.0, view.steps / view.total_steps):.0%}"
    return f"{view.steps} st." if view.steps else "-"


def _finish(view: JobView, now_s: float) -> str:
    if view.finished_s is not None:
        return clock(view.finished_s, now_s) + _kept(view)
    return distance(view, now_s) or "-"


def _kept(view: JobView) -> str:
    if view.kept is None or view.phase == "rejected":  # nothing was promised
        return ""
    return " kept" if view.kept else " missed"


def show(
    job: JobName, run: Run = None, policy: RunPolicy = None, state: State = None, json: Json = False
) -> None:
    """Show everything about a job, including why it failed."""
    view, times = _look(job, run, policy, state)
    if json:
        print_json(view)
        return
    print_table(("", ""), [(name, text) for name, text in _facts(view, times) if text])
    if view.resize_history:
        print()
        print_table(HEADINGS, [resize_row(resize, times) for resize in view.resize_history])
    for about, text in view.warnings.items():
        console().print(f"\nwarning, {about}: {text}", soft_wrap=True)
    if view.message:
        console().print(f"\n{view.message}", soft_wrap=True)


def _look(job: str, run: Path | None, policy: str | None, state: Path | None) -> tuple[JobView, Times]:
    if (record := recorded(run, policy, state)) is not None:
        return record.find(job), record.times
    from swell.api.client import connect

    with connect(state) as client:
        return find_job(client, job), WallTimes(client.cluster().now_s)


def _facts(view: JobView, times: Times) -> list[tuple[str, str]]:
    def when(at_s: float | None) -> str:
        return "" if at_s is None else times.moment(at_s)

    changes = ", ".join(f"{workers} at {times.clock(at_s)}" for at_s, workers in view.sizes)
    numbers = {**({} if view.loss is None else {"loss": view.loss}), **view.metrics}
    offer = "" if view.counter_offer_s is None else when(view.counter_offer_s)
    return [
        ("job", view.id),
        ("phase", f"{view.phase}: {view.reason}" if view.reason else str(view.phase)),
        ("class", view.job_class + _standing(view)),
        ("tenant", view.tenant),
        ("user", view.user),
        ("script", " ".join((view.entry, *view.args))),
        ("code", f"snapshot {view.code[:12]}, taken when it was submitted" if view.code else ""),
        ("batch", _batch(view)),
        ("workers", _workers(view)),
        ("devices", ", ".join(view.devices)),
        ("kind", view.kind),
        ("sizes", changes),
        ("pids", _pids(view)),
        ("steps", f"{view.steps} of {view.total_steps or 'an unknown number'} ({done(view)})"),
        ("speed", "" if view.step_s is None else f"{view.step_s * 1000:.1f} ms a step"),
        ("last", ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())),
        ("learning", _learning(view, numbers)),
        ("share", "" if view.share is None else f"{100 * view.share:.3g} %"),
        ("used", _used(view)),
        ("resizes", totals(view)),
        ("continues", view.continues),
        ("submitted", when(view.submitted_s)),
        ("started", when(view.started_s)),
        ("deadline", when(view.deadline_s) + _kept(view).replace(" ", ", ")),
        ("refused", _refusal(view)),
        ("could be", offer),
        ("next try", _next_try(view, times)),
        ("expected", expectation(view, times)),
        ("finished", when(view.finished_s) + _run_time(view)),
    ]


def _learning(view: JobView, numbers: Mapping[str, float]) -> str:
    """Which metric shows how much a job still learns; empty unless that matters or was asked for."""
    from swell.model.job import LOSS

    if view.share is None and view.metric == LOSS:
        return ""
    lacks = "" if view.metric in numbers else "; not reported yet"
    return f"told by {view.metric}, which learning {'raises' if view.metric_rises else 'lowers'}{lacks}"


def _used(view: JobView) -> str:
    """CPU time that the job has used, and memory that its present workers use."""
    cpu = "" if view.cpu_s is None else f"{span(view.cpu_s)} of CPU time"
    memory = f"{format_bytes(view.memory_used_bytes)} resident" if view.memory_used_bytes else ""
    return ", ".join(filter(None, (cpu, memory)))


def _refusal(view: JobView) -> str:
    """Why another deadline was refused, or that it is not decided yet; empty: none was asked for."""
    if view.asked_deadline_s is not None:
        return "another deadline is asked for, and not decided yet"
    return "" if view.is_unpromised else view.refusal


def _next_try(view: JobView, times: Times) -> str:
    """When a job that waits after a failure is tried again; empty if it does not wait."""
    return "" if view.retry_s is None or view.retry_s <= times.now_s else times.moment(view.retry_s)


def _standing(view: JobView) -> str:
    """Whether its deadline is a promise, or why it is none."""
    if view.is_unpromised:
        return f", not promised: {view.refusal}"
    return ", promised" if view.is_promised else ""


def _workers(view: JobView) -> str:
    most = "or more" if view.max_workers is None else f"to {view.max_workers}"
    wanted = str(view.min_workers) if view.min_workers == view.max_workers else f"{view.min_workers} {most}"
    return f"{view.workers} now, {wanted} wanted, {told_devices(view.devices_per_worker)} each"


def _batch(view: JobView) -> str:
    """The script of a restart job cuts its batches itself; what was not told when it was submitted is 1."""
    if view.batch_per_worker is not None:
        return f"{view.batch} samples a step, {view.batch_per_worker} for each worker"
    if view.max_batch is not None:
        rate = f"learning rate of {view.global_batch}"
        return f"{view.batch} samples a step, {view.min_batch} to {view.max_batch} wanted, {rate}"
    is_known = view.elasticity == "live" or view.global_batch > 1
    return f"{view.global_batch} samples a step" if is_known else ""


def _pids(view: JobView) -> str:
    """Pids of the live workers, and the number of processes before them."""
    num_former = len(set(view.pids).difference(view.live_pids))
    former = [f"{num_former} former"] if num_former else []
    return ", ".join([*map(str, view.live_pids), *former])


def _run_time(view: JobView) -> str:
    if view.finished_s is None:
        return ""
    return f", {span(view.finished_s - view.submitted_s)} after it was submitted"


def explain(
    job: JobName, run: Run = None, policy: RunPolicy = None, state: State = None, json: Json = False
) -> None:
    """Explain a job's size, waiting or refusal, live or in a simulated run."""
    view, stories, times = _hear(job, run, policy, state)
    if json:
        print_json(stories)
        return
    head = [(view.id, f"{view.phase}: {view.reason}"), ("next try", _next_try(view, times))]
    print_table(("", ""), [row for row in head if row[1]])
    print()
    print_table(("AT", "WHAT", "WHY"), [(times.clock(told.at_s), told.code, told.text) for told in stories])


def _hear(
    job: str, run: Path | None, policy: str | None, state: Path | None
) -> tuple[JobView, Sequence[Story], Times]:
    if (record := recorded(run, policy, state)) is not None:
        view = record.find(job)
        return view, record.stories(view), record.times
    from swell.api.client import connect

    with connect(state) as client:
        view = find_job(client, job)
        return view, client.stories(view.id), WallTimes(client.cluster().now_s)


def cancel(job: JobName, state: State = None) -> None:
    """Cancel a job. Its checkpoints and logs stay."""
    from swell.api.client import connect

    with connect(state) as client:
        view = find_job(client, job)
        if view.phase.is_end:
            print(f"{view.id}: already {view.phase}, nothing to cancel")
            return
        client.cancel(view.id)
    print(f"{view.id}: will be cancelled")
