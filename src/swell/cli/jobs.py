"""`swell jobs`, `show`, `explain` and `top`."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api import words
from swell.cli.clock import Times, WallTimes, clock
from swell.cli.options import JobName, Json, Run, RunPolicy, State, complete_phase
from swell.cli.output import print_json, print_table, raw, warn
from swell.cli.run import recorded
from swell.cli.selection import find_job
from swell.model.lengths import span

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.api.words import ResizeRow
    from swell.model.throughput import JobThroughput
    from swell.model.view import ClusterView, JobView, Story

#: Jobs that a list shows unless it is told otherwise: a few screens.
SHOWN_JOBS = 100
HEADINGS = ("JOB", "CLASS", "PHASE", "SIZE", "DONE", "DEADLINE", "FINISH", "KIND")
RESIZES = ("AT", "SIZE", "WAIT", "COST", "KEPT", "GAIN", "EXPECTED", "RESULT", "WHY")
#: Columns that a narrow terminal does without, the first one first.
LEAST_WORTH = ("KIND", "CLASS", "SIZE", "DONE", "DEADLINE", "FINISH")


def list_jobs(
    phase: Annotated[
        str | None,
        typer.Option(
            metavar="PHASE,...",
            help="Only jobs in these phases: queued, starting, running, stopping, succeeded, "
            "ended-early, failed, cancelled, rejected; `open` means the first four, `ended` the last "
            "five, `held` those queued jobs that are held. Words such as `pending` and `done` "
            "are understood.",
            autocompletion=complete_phase,
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="TENANT", help="Only jobs of this tenant.")] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="GROUP", help="Only jobs of this group, compared: parameters and metrics."),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Only jobs with this tag. May be repeated."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Leave out jobs that ended before this time: 2h for two hours ago, or 2030-01-31T18:00:00.",
        ),
    ] = None,
    is_all: Annotated[bool, typer.Option("--all", "-a", help="List ended jobs too.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="List at most N jobs: those with devices first, then waiting ones, then the "
            "newest ended ones. 0: all. Default: 100; all with --json.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="FOLDER",
            help="State folder. Default: $SWELL_STATE, else ~/.local/state/swell. Phases (`--state running`) "
            "are understood as `--phase`.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List jobs, open ones before ended ones.

    Ended jobs are only counted, unless an option says which jobs to list. With --json all jobs are listed,
    oldest first.
    """
    from swell.cli.selection import (
        ENDED,
        asks_for_held,
        connect_to_read,
        parse_phases,
        parse_since,
        phase_or_folder,
        select,
        told_phases,
    )

    phase, state = phase_or_folder(phase, state)
    phases, begin_s = parse_phases(phase), parse_since(since)
    is_wanted = _condition(tenant, group, tags, asks_for_held(phase))
    is_plain = phase is None and since is None and is_wanted is None
    counts_ended = is_plain and not (is_all or json or limit is not None)
    if counts_ended:
        phases -= ENDED
    if limit is None:
        limit = 0 if json else SHOWN_JOBS
    with connect_to_read(state) as client:
        cluster = client.cluster()
        chosen = select(client, phases, begin_s(cluster.now_s), limit, is_wanted)
        ended = told_phases(client.count_jobs(), ENDED) if counts_ended else ""
    if stalled := cluster.warnings.get("journal"):
        warn(stalled)
    if json:
        print_json(chosen.views)
        return
    if chosen.views and group is not None:
        _print_group(group, chosen.views, cluster.now_s)
    elif chosen.views:
        print_jobs(cluster, chosen.views)
    elif ended:
        print("no open jobs")
    else:
        print("no jobs yet; submit one with `swell submit`" if is_plain else "no such jobs")
    if chosen.num_left_out:
        print(f"\n{chosen.num_left_out:,} more: {chosen.left_out}; --limit 0 lists them too")
    if ended:
        print(f"\nended: {ended}; `swell jobs --all` lists them")


def print_jobs(cluster: ClusterView, views: Sequence[JobView]) -> None:
    """Print a table of jobs, open ones before ended ones, in as many columns as the terminal has room for."""
    kinds = {node.kind for node in cluster.nodes} | {view.kind for view in views if view.kind}
    num_columns = len(HEADINGS) - (len(kinds) < 2)
    ordered = sorted(views, key=lambda view: view.phase.is_end)
    rows = [row(view, cluster.now_s)[:num_columns] for view in ordered]
    print_table(HEADINGS[:num_columns], rows, wrapping=None, least_worth=LEAST_WORTH)


def _condition(
    tenant: str | None, group: str | None, tags: list[str] | None, is_held: bool
) -> Callable[[JobView], bool] | None:
    """Which jobs are wanted besides those of the phases; None: all are."""
    if tenant is None and group is None and not tags and not is_held:
        return None

    def is_wanted(view: JobView) -> bool:
        is_of_phase = not is_held or view.is_held or view.phase != "queued"
        is_named = tenant in (None, view.tenant) and group in (None, view.group)
        return is_of_phase and is_named and set(tags or ()) <= set(view.tags)

    return is_wanted


def _print_group(group: str, views: Sequence[JobView], now_s: float) -> None:
    from swell.cli.selection import summary, table

    headings, rows = table(views, now_s)
    print_table(headings, rows, wrapping=None)
    print(f"\n{summary(group, views)}")


def row(view: JobView, now_s: float) -> tuple[str, ...]:
    """The job in a list, under `HEADINGS`."""
    return (
        view.id,
        _class(view),
        _phase(view),
        _size(view),
        words.done(view),
        "-" if view.deadline_s is None else clock(view.deadline_s, now_s),
        _finish(view, now_s),
        view.kind or "-",
    )


def _class(view: JobView) -> str:
    """Class of the job; and its priority, if it has one."""
    return f"{view.job_class}, priority {view.priority}" if view.priority else view.job_class


def _size(view: JobView) -> str:
    """Workers; and the batch, where that may change."""
    if not view.workers:
        return "-"
    is_fixed = view.max_batch is None and view.batch_per_worker is None
    return str(view.workers) if is_fixed else f"{view.workers}, batch {view.batch}"


def _phase(view: JobView) -> str:
    """Phase of the job, with its loss if that is not a finite number: then its training has diverged."""
    is_odd = view.loss is not None and not math.isfinite(view.loss)
    told = words.phase(view)
    return f"{told}, {view.loss}" if is_odd else told


def _finish(view: JobView, now_s: float) -> str:
    if view.finished_s is not None:
        return f"{clock(view.finished_s, now_s)} {words.kept(view)}".rstrip()
    return words.distance(view, now_s) or "-"


def show(
    job: JobName, run: Run = None, policy: RunPolicy = None, state: State = None, json: Json = False
) -> None:
    """Show everything about a job, including why it failed; or compare the jobs of a group."""
    views, times = _look(job, run, policy, state)
    view, *others = views
    throughput = None if others or json or run is not None else _throughput(view, state)
    if others or (view.group == job and job not in (view.id, view.name)):
        if json:
            print_json(views)
        else:
            _print_group(job, views, times.now_s)
        return
    if json:
        print_json(view)
        return
    facts = [*facts_in_order(view, times)]
    if run is None:
        facts.append(("checkpoint", _newest_checkpoint(view, state)))
    if throughput is not None:
        facts += [
            ("curve", words.told_throughput(throughput)),
            ("state", words.told_divided_state(throughput, view.workers)),
        ]
    print_table(("", ""), [(name, text) for name, text in facts if text])
    if view.resize_history:
        print()
        print_table(RESIZES, [_resize_row(resize, times) for resize in reversed(words.resize_rows(view))])
    for line in words.told_findings(view):
        print(f"\n{line}")
    for about, text in view.warnings.items():
        print(f"\nwarning, {about}: {text}")
    if view.message and view.message != view.reason:
        print(f"\n{view.message}")


def _resize_row(resize: ResizeRow, times: Times) -> tuple[str, ...]:
    """Under `RESIZES`."""
    costs = (resize.wait, resize.cost, resize.kept_for, resize.gain, resize.expected_gain)
    size = resize.size.replace(" \N{RIGHTWARDS ARROW} ", "->")
    return (times.clock(resize.at_s), size, *costs, resize.verdict, resize.reason_code)


def _throughput(view: JobView, state: Path | None) -> JobThroughput | None:
    """Samples a second by workers, and what they were made from; None while there is no curve."""
    from swell.api.client import ApiError, NoPlatform, connect

    if view.phase.is_end or view.total_steps is None:
        return None
    try:
        with connect(state) as client:
            return client.curve(view.id)
    except (ApiError, NoPlatform):  # a restart job, or one whose trial run is not over
        return None


def _newest_checkpoint(view: JobView, state: Path | None) -> str:
    """Steps and folder of the job's newest checkpoint; empty if there is none that this user may see."""
    from swell.store.folder import StateFolder
    from swell.wire.checkpoint_files import checkpoints_in, steps_in

    folder = StateFolder(state).jobs / view.id / "checkpoints"
    try:
        found = checkpoints_in(folder)
    except OSError:  # another user's
        return ""
    return f"step {steps_in(found[0][1])}, in {folder}" if found else ""


def _look(job: str, run: Path | None, policy: str | None, state: Path | None) -> tuple[list[JobView], Times]:
    """The job, or the jobs of the group of that name."""
    if (record := recorded(run, policy, state)) is not None:
        return [record.find(job)], record.times
    from swell.cli.selection import connect_to_read, find_jobs

    with connect_to_read(state) as client:
        return find_jobs(client, [job]), WallTimes(client.cluster().now_s)


def facts_in_order(view: JobView, times: Times) -> list[tuple[str, str]]:
    """What `swell show` prints of a job, by name; an empty text is not printed."""
    changes = ", ".join(f"{workers} at {times.clock(at_s)}" for at_s, workers in view.sizes)
    return [
        ("job", view.id),
        ("phase", f"{view.phase}: {view.reason}" if view.reason else str(view.phase)),
        ("script", words.command_line(view)),
        ("code", f"snapshot {view.code[:12]}, taken when it was submitted" if view.code else ""),
        *words.facts(view),
        ("sizes", changes),
        ("steps", f"{view.steps} of {view.total_steps or 'an unknown number'} ({words.done(view)})"),
        ("last", ", ".join(f"{name} {value:.4g}" for name, value in words.latest(view).items())),
        ("resizes", words.totals(view)),
        ("continues", view.continues),
        *_moments(view, times),
        ("refused", words.refusal_of_change(view)),
        ("expected", words.expectation(view, times.now_s, times.clock)),
    ]


def _moments(view: JobView, times: Times) -> Iterator[tuple[str, str]]:
    more = {
        "finished": _run_time(view),
        "deadline": f", {kept}" if (kept := words.kept(view)) else "",
        "asked for": ", not decided on yet",
    }
    for name, at_s in (words.moments(view, times.now_s) | words.promise_moments(view)).items():
        is_settled = name == "deadline" and view.finished_s is not None
        yield name, (times.clock if is_settled else times.moment)(at_s) + more.get(name, "")


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
    retry_s = words.moments(view, times.now_s).get("next try")
    retry = [] if retry_s is None else [("next try", times.moment(retry_s))]
    print_table(("", ""), [(view.id, f"{view.phase}: {view.reason}"), *retry])
    print()
    print_table(("AT", "WHAT", "WHY"), [(times.clock(told.at_s), told.code, told.text) for told in stories])


def _hear(
    job: str, run: Path | None, policy: str | None, state: Path | None
) -> tuple[JobView, Sequence[Story], Times]:
    if (record := recorded(run, policy, state)) is not None:
        view = record.find(job)
        return view, record.stories(view), record.times
    from swell.cli.selection import connect_to_read

    with connect_to_read(state) as client:
        view = find_job(client, job)
        return view, client.stories(view.id), WallTimes(client.cluster().now_s)


#: To the upper left corner of an empty terminal.
CLEAR = "\033[H\033[2J"
#: Lines of a terminal that are no rows: the summary, the headings, what is left out, and the cursor's.
OTHER_LINES = 5


def top(
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.2, help="Seconds between two looks.")
    ] = 2.0,
    state: State = None,
) -> None:
    """Show devices and open jobs, again and again until Ctrl-C. Once, where the output is no terminal."""
    from swell.api.client import connect

    is_terminal = sys.stdout.isatty()
    with connect(state) as client:
        while True:
            if is_terminal:
                raw(sys.stdout).write(CLEAR)
            _print(client, max(1, shutil.get_terminal_size().lines - OTHER_LINES) if is_terminal else 0)
            sys.stdout.flush()
            if not is_terminal:
                return
            time.sleep(every)


def _print(client: Client, limit: int) -> None:
    """Summary and table; `limit` is the most jobs that are shown, 0: all."""
    from swell.cli.selection import WORDS, select, told_phases

    cluster, counts = client.cluster(), client.count_jobs()
    chosen = select(client, WORDS["open"], None, limit)
    num_used = cluster.num_devices - cluster.num_free
    told = told_phases(counts)
    print(f"{num_used} of {cluster.num_devices} devices in use; jobs: {told or 'none'}\n")
    if chosen.views:
        print_jobs(cluster, chosen.views)
    if chosen.num_left_out:
        print(f"{chosen.num_left_out:,} more: {chosen.left_out}")
