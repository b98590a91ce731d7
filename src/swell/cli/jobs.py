"""`swell jobs`, `show` and `explain`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import swell
from swell.api import words
from swell.cli import selection
from swell.cli.options import JobName, Json, Run, RunPolicy, State, described, left_folder
from swell.cli.output import Times, clock, print_json, print_table, warn
from swell.model.quantities import span, told_devices, told_jobs

if TYPE_CHECKING:
    from swell.api.words import ResizeRow
    from swell.model.throughput import JobThroughput
    from swell.model.view import ClusterView, JobView

#: Jobs that a list shows unless it is told otherwise: a few screens.
SHOWN_JOBS = 100
#: Metrics of which a table of a group has a column.
MOST_METRICS = 4
#: Columns that a narrow terminal does without, the first one first.
LEAST_WORTH = ("KIND", "CLASS", "DEADLINE", "SIZE", "DONE", "FINISH")
RESIZES = ("AT", "SIZE", "WAIT", "COST", "KEPT", "GAIN", "EXPECTED", "RESULT", "WHY")


# ------------------------------------------------------------ jobs
@described("""
phase: PHASE,...
    Only jobs in these phases: queued, starting, running, stopping, succeeded, ended-early, failed, timed-out,
    cancelled, rejected; `open` means the first four, `ended` the last six, `held` those queued jobs that are
    held. Words such as `pending` and `done` are understood.
tenant: TENANT
    Only jobs of this tenant.
group: GROUP
    Only jobs of this group, compared: parameters and metrics.
tags (--tag): TAG
    Only jobs with this tag. May be repeated.
since: TIME
    Leave out jobs that ended before this time: 2h for two hours ago, or 2030-01-31T18:00:00.
is_all (--all, -a):
    List ended jobs too.
limit (count): N
    List at most N jobs: those with devices first, then waiting ones, then the newest ended ones. 0: all.
    Default: 100; all with --json.
""")
def list_jobs(
    phase: str | None = None,
    tenant: str | None = None,
    group: str | None = None,
    tags: list[str] | None = None,
    since: str | None = None,
    is_all: bool = False,
    limit: int | None = None,
    state: State = None,
    json: Json = False,
) -> None:
    """List jobs, open ones before ended ones.

    Ended jobs are only counted, unless an option says which jobs to list. With --json all jobs are listed,
    oldest first.
    """
    phases, begin_s = selection.parse_phases(phase), selection.parse_since(since)
    is_wanted = _condition(tenant, group, tags, selection.asks_for_held(phase))
    is_plain = phase is None and since is None and is_wanted is None
    counts_ended = is_plain and not (is_all or json or limit is not None)
    if counts_ended:
        phases -= selection.ENDED
    if limit is None:
        limit = 0 if json else SHOWN_JOBS
    with selection.connect_to_read(state) as client:
        cluster = client.cluster()
        views, left_out = selection.select(client, phases, begin_s(cluster.now_s), limit, is_wanted)
        ended = selection.phases_text(client.count_jobs(), selection.ENDED) if counts_ended else ""
    if stalled := cluster.warnings.get("journal"):
        warn(stalled)
    if json:
        print_json(views)
        return
    if views and group is not None:
        _print_group(group, views, cluster.now_s)
    elif views:
        _print_jobs(cluster, views)
    elif ended:
        print("no open jobs")
    else:
        print("no jobs yet; submit one with `swell submit`" if is_plain else "no such jobs")
    if num_left_out := sum(left_out.values()):
        print(f"\n{num_left_out:,} more: {selection.phases_text(left_out)}; --limit 0 lists them too")
    if ended:
        print(f"\nended: {ended}; `swell jobs --all` lists them")


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


def _print_jobs(cluster: ClusterView, views: Sequence[JobView]) -> None:
    """Print a table of jobs, open ones before ended ones, in as many columns as the terminal has room for."""
    rows = [row(view, cluster.now_s) for view in sorted(views, key=lambda view: view.phase.is_end)]
    if len({node.kind for node in cluster.nodes} | {view.kind for view in views if view.kind}) < 2:
        for one in rows:
            del one["KIND"]
    headings = [*rows[0]]
    wrapping = headings.index("PHASE")
    print_table(headings, [[*one.values()] for one in rows], wrapping, least_worth=LEAST_WORTH)


def row(view: JobView, now_s: float) -> dict[str, str]:
    """The job in a list, by headings."""
    priority = f", priority {view.priority}" if view.priority else ""
    has_open_batch = view.max_batch is not None or view.batch_per_worker is not None
    batch = f", batch {view.batch}" if has_open_batch else ""
    size = told_devices(len(view.devices)) if view.fixed else f"{view.workers}{batch}"
    finish = words.distance(view, now_s) or "-"
    if view.finished_s is not None:
        finish = f"{clock(view.finished_s, now_s)} {words.kept(view)}".rstrip()
    return {
        "JOB": view.id,
        "CLASS": f"{view.job_class}{', session' if view.fixed and view.fixed.is_session else ''}{priority}",
        "PHASE": words.phase(view, now_s),
        "SIZE": size if view.workers else "-",
        "DONE": words.done(view),
        "DEADLINE": "-" if view.deadline_s is None else clock(view.deadline_s, now_s),
        "FINISH": finish,
        "KIND": view.kind or "-",
    }


def _print_group(group: str, views: Sequence[JobView], now_s: float) -> None:
    """Print a column for each parameter, that is for each tag `NAME=VALUE`, and for each metric."""
    given = {view.id: _tag_values(view) for view in views}
    parameters = dict.fromkeys(name for values in given.values() for name in values)
    metrics = [*dict.fromkeys(name for view in views for name in words.latest(view))][:MOST_METRICS]
    rows = []
    for view in views:
        latest = {name: f"{value:.4g}" for name, value in words.latest(view).items()}
        known = [given[view.id].get(name, "-") for name in parameters]
        known += [latest.get(name, "-") for name in metrics]
        rows.append(
            [view.id, words.phase(view, now_s), words.done(view), *known, words.distance(view, now_s) or "-"]
        )
    print_table(["JOB", "PHASE", "DONE", *parameters, *metrics, "FINISH"], rows, wrapping=1)
    print(f"\n{_summary(group, views)}")


def _summary(group: str, views: Sequence[JobView]) -> str:
    """`6 jobs of lr-sweep: 2 running, 4 succeeded; best loss 0.12: lr-sweep-3 (lr=0.1)`"""
    text = (
        f"{told_jobs(len(views))} of {group}: {selection.phases_text(Counter(view.phase for view in views))}"
    )
    values = [(value, view) for view in views if (value := words.latest(view).get(view.metric)) is not None]
    values = [(value, view) for value, view in values if not math.isnan(value)]
    if not values:
        return text
    rises = values[-1][1].metric_rises
    value, best = (max if rises else min)(values, key=lambda pair: pair[0])
    given = ", ".join(f"{name}={word}" for name, word in _tag_values(best).items())
    return f"{text}; best {best.metric} {value:.4g}: {best.id}{f' ({given})' if given else ''}"


def _tag_values(view: JobView) -> dict[str, str]:
    """The values of tags `NAME=VALUE`, by name."""
    pairs = (tag.partition("=") for tag in view.tags)
    return {name: value for name, sign, value in pairs if name and sign}


# ------------------------------------------------------------ show
def show(
    job: JobName, run: Run = None, policy: RunPolicy = None, state: State = None, json: Json = False
) -> None:
    """Show everything about a job, including why it failed."""
    from swell.cli.selection import shown_jobs

    with shown_jobs(run, policy, state) as jobs:
        view, times = jobs.find(job), jobs.times
    if json:
        print_json(view)
        return
    facts = facts_in_order(view, times)
    if run is None:
        facts += _facts_of_platform(view, state)
    print_table(("", ""), [(name, text) for name, text in facts if text])
    if view.resize_history:
        print()
        print_table(RESIZES, [_resize_row(resize, times) for resize in reversed(words.resize_rows(view))])
    for line in words.finding_lines(view):
        print(f"\n{line}")
    for about, text in view.warnings.items():
        print(f"\nwarning, {about}: {text}")
    if view.message and view.message != view.reason:
        print(f"\n{view.message}")


def facts_in_order(view: JobView, times: Times) -> list[tuple[str, str]]:
    """What `swell show` prints of a job, by name; an empty text is not printed."""
    changes = ", ".join(f"{workers} at {times.clock(at_s)}" for at_s, workers in view.sizes)
    again = f", {view.repeated_steps} made twice" if view.repeated_steps else ""
    training = [
        ("sizes", changes),
        ("steps", f"{view.steps} of {view.total_steps or 'an unknown number'} ({words.done(view)}){again}"),
        ("last", ", ".join(f"{name} {value:.4g}" for name, value in words.latest(view).items())),
        ("resizes", words.totals(view)),
    ]
    return [
        ("job", view.id),
        ("phase", f"{view.phase}: {view.reason}" if view.reason else str(view.phase)),
        ("command" if view.fixed else "script", words.command_line(view)),
        ("secrets", ", ".join(view.secrets)),
        ("code", f"snapshot {view.code[:12]}, taken when it was submitted" if view.code else ""),
        *words.facts(view),
        *view.links.items(),
        *([] if view.fixed else training),
        ("continues", view.continues),
        *_moments(view, times),
        ("refused", words.refusal_of_change(view)),
        ("expected", words.expectation(view, times.now_s, times.clock)),
    ]


def _moments(view: JobView, times: Times) -> Iterator[tuple[str, str]]:
    more = {"asked for": ", not decided on yet"}
    if kept := words.kept(view):
        more["deadline"] = f", {kept}"
    if view.finished_s is not None:
        more["finished"] = f", {span(view.finished_s - view.submitted_s)} after it was submitted"
    for name, at_s in (words.moments(view, times.now_s) | words.promise_moments(view)).items():
        is_settled = name == "deadline" and view.finished_s is not None
        yield name, (times.clock if is_settled else times.moment)(at_s) + more.get(name, "")


def _facts_of_platform(view: JobView, state: Path | None) -> Iterator[tuple[str, str]]:
    """What only a platform has of a job: its newest checkpoint, and its curve."""
    from swell.wire.checkpoint_files import checkpoints_in, steps_in

    left = left_folder(state)
    folder = None if left is None else left.jobs / view.id / "checkpoints"
    try:
        found = [] if folder is None else checkpoints_in(folder)
    except OSError:  # another user's
        found = []
    if found:
        yield "checkpoint", f"step {steps_in(found[0][1])}, in {folder}"
    if (throughput := _throughput(view, state)) is not None:
        yield "curve", words.throughput_text(throughput)


def _throughput(view: JobView, state: Path | None) -> JobThroughput | None:
    """Samples a second by workers, and what they were made from; None while there is no curve."""
    from swell.api.client import ApiError, NoPlatform

    if view.phase.is_end or view.total_steps is None:
        return None
    try:
        with swell.connect(state) as client:
            return client.curve(view.id)
    except (ApiError, NoPlatform):  # a restart job, or one whose trial run is not over
        return None


def _resize_row(resize: ResizeRow, times: Times) -> tuple[str, ...]:
    """Under `RESIZES`."""
    costs = (resize.wait, resize.cost, resize.kept_for, resize.gain, resize.expected_gain)
    size = resize.size.replace(" \N{RIGHTWARDS ARROW} ", "->")
    return (times.clock(resize.at_s), size, *costs, resize.verdict, resize.reason_code)


# ------------------------------------------------------------ explain
def explain(
    job: JobName, run: Run = None, policy: RunPolicy = None, state: State = None, json: Json = False
) -> None:
    """Explain a job's size, waiting or refusal, live or in a simulated run."""
    from swell.cli.selection import shown_jobs

    with shown_jobs(run, policy, state) as jobs:
        view, times = jobs.find(job), jobs.times
        stories = jobs.stories(view)
    if json:
        print_json(stories)
        return
    retry_s = words.moments(view, times.now_s).get("next try")
    expected = words.expectation(view, times.now_s, times.clock)
    more = {"expected": expected, "next try": "" if retry_s is None else times.moment(retry_s)}
    told = [(name, text) for name, text in more.items() if text]
    print_table(("", ""), [(view.id, f"{view.phase}: {view.reason}"), *told])
    print()
    print_table(("AT", "WHAT", "WHY"), [(times.clock(one.at_s), one.code, one.text) for one in stories])
