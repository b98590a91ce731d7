"""What users do with jobs that are there: each command asks for one verb of `api.verbs`, job by job."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import swell
from swell.cli import submit as job
from swell.cli.options import JobName, JobNames, Json, State, described, seconds
from swell.cli.output import print_json, print_note, print_table, warn
from swell.cli.submit import REFUSED, change_refused, tell_verdicts, verdict
from swell.model.deadline_state import is_change_refused
from swell.model.errors import InvalidInput
from swell.model.quantities import format_bytes, told_workers

if TYPE_CHECKING:
    from swell.api.client import Client, SubmittedJob
    from swell.model.view import JobView

#: Exit status of `wait` by outcome, the gravest first.
STATUSES = {"failed": 1, "rejected": 3, "cancelled": 4, "ended-early": 6, "timed-out": 7}
#: Exit status when the jobs have not ended in time, as that of timeout(1).
TIMED_OUT = 124
#: Seconds between two looks at the jobs.
LOOK_EVERY_S = 0.5


def _chosen_jobs(client: Client, jobs: list[str], is_meant: Callable[[JobView], bool]) -> list[JobView]:
    """The jobs of these names; of a group only those that are meant."""
    return [view for view in client.find_jobs(jobs) if view.group not in jobs or is_meant(view)]


def _change(
    jobs: list[str],
    state: Path | None,
    json: bool,
    ask: Callable[[Client, JobView], JobView],
    tell: Callable[[JobView, JobView], str],
) -> None:
    """Ask something of each job, of groups only of open ones, and tell of it: as it was, and as it is."""
    with swell.connect(state) as client:
        found = _chosen_jobs(client, jobs, lambda view: not view.phase.is_end)
        views = [ask(client, view) for view in found]
    if json:
        print_json(views)
        return
    for before, view in zip(found, views, strict=True):
        print(f"{view.id}: {tell(before, view)}")


# ------------------------------------------------------------ hold, resume, cancel, priorities
def hold(jobs: JobNames, state: State = None, json: Json = False) -> None:
    """Have jobs give up their devices, saved, and wait until they are resumed.

    A job that runs saves a checkpoint first. A promise of its deadline is withdrawn, so that other jobs can
    have its devices, and is asked for again when it is resumed. A queued job can be held too.
    """

    def tell(before: JobView, view: JobView) -> str:
        withdrawn = ", and its promise is withdrawn" if before.is_promised else ""
        ended = "ended" if view.fixed else "saved"
        what = f"will be {ended} and held" if view.phase.holds_devices else "is held"
        return f"{what}{withdrawn}; `swell resume {view.id}` lets it go on"

    _change(jobs, state, json, lambda client, view: client.hold(view.id), tell)


def resume(jobs: JobNames, state: State = None, json: Json = False) -> None:
    """Let held jobs go on from where they were saved.

    A promise that was withdrawn is asked for again. If it cannot be made, the job runs on as a soft job with
    that deadline, and the exit status is 3.
    """
    with swell.connect(state) as client:
        found = _chosen_jobs(client, jobs, lambda view: view.is_held)
        resumed = [client.resume(view.id) for view in found]
        if not json:
            for view in found:
                if not view.is_held and not view.awaits:
                    print(f"{view.id}: was not held, so there is nothing to resume")
        _tell_answers(client, resumed, json)


def cancel(jobs: JobNames, state: State = None) -> None:
    """Cancel jobs. Their checkpoints and logs stay."""
    with swell.connect(state) as client:
        for view in client.find_jobs(jobs):
            client.cancel(view.id)  # changes no job that has ended, and refuses who may not cancel
            done = f"already {view.phase}, nothing to cancel" if view.phase.is_end else "will be cancelled"
            print(f"{view.id}: {done}")


def prioritize(
    jobs: JobNames,
    priority: job.OtherPriority = None,
    weight: job.OtherWeight = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Give jobs another priority, another weight, or both.

    Promises that were given are kept. Jobs that hold devices may have to give them up to those whose
    priority is higher now: they are saved, and go on later.
    """
    if priority is None and weight is None:
        raise InvalidInput("nothing is to be changed; give --priority, --weight or both")
    from swell.api.submission import within_bounds

    if weight is not None:
        within_bounds("weight", weight)  # JSON has no NaN

    def tell(before: JobView, view: JobView) -> str:
        told = [] if priority is None else [f"priority {view.priority} among {view.job_class} jobs"]
        told += [] if weight is None else [f"weight {view.weight:g}"]
        return f"has {' and '.join(told)}"

    _change(jobs, state, json, lambda client, view: client.change_priority(view.id, priority, weight), tell)


@described("""
names (argument): NAME...
    Findings of its trial run, as `swell show` names them.
""")
def accept_differences(job: JobName, names: list[str], state: State = None, json: Json = False) -> None:
    """Accept findings of a job's trial run, so that they do not limit its number of workers."""
    from swell.api.words import finding_lines

    with swell.connect(state) as client:
        view = client.accept_differences(client.find_job(job).id, names)
    if json:
        print_json(view)
    elif view.held_by:
        print(f"{view.id}: still limited to {told_workers(view.min_workers)} by {' and '.join(view.held_by)}")
        print("\n".join(f"  {line}" for line in finding_lines(view)))
    else:
        print(f"{view.id}: may have more workers, as its policy decides")


# ------------------------------------------------------------ another deadline
def promise(
    job_name: JobName,
    deadline: job.RequiredDeadline,
    accept_until: job.AcceptUntil = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Ask for another deadline of a job that runs or waits: earlier, later, or its first.

    If it cannot be promised, the job keeps what it has, and the exit status is 3.
    """
    with swell.connect(state) as client:
        view = client.promise(client.find_job(job_name).id, deadline=deadline, accept_until=accept_until)
        _tell_answers(client, [view], json, is_one=True)


def _tell_answers(client: Client, views: Sequence[JobView], as_json: bool, is_one: bool = False) -> None:
    """Print whether each job is promised the deadline that was asked for; exit with 3 if one is not."""
    views = [_decided(client, view) for view in views]
    refused = [view for view in views if is_change_refused(view) and not view.phase.is_end]
    if as_json:
        print_json(views[0] if is_one else views)
    else:
        cluster = client.cluster()
        for view in views:
            if view in refused:
                print(change_refused(view, cluster.now_s))
            else:
                print(verdict(view, cluster.policy, cluster.now_s))
    if refused:
        raise typer.Exit(REFUSED)


def _decided(client: Client, view: JobView) -> JobView:
    """The job after the decision; a held job waits for none, for it is made when the job is resumed."""
    if view.asked_deadline_s is None or view.is_held:
        return view
    print_note(f"{view.id}: waiting for its trial run and the admission decision")
    return client.wait(view.id, lambda job: job.asked_deadline_s is None or job.phase.is_end or job.is_held)


# ------------------------------------------------------------ ended jobs once more
def retry(
    jobs: JobNames,
    deadline: job.OtherDeadline = None,
    kind: job.OtherKind = None,
    no_wait: job.NoWait = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Submit jobs again that failed, ended early, were refused or stopped, each as a new job from step 0."""
    _again(
        jobs, state, no_wait, json, lambda client, view: client.retry(view.id, deadline=deadline, kind=kind)
    )


def continue_jobs(
    jobs: JobNames,
    deadline: job.OtherDeadline = None,
    kind: job.OtherKind = None,
    no_wait: job.NoWait = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Submit jobs again that failed, ended early or were stopped, each from its last checkpoint.

    For restart jobs this is the same as retry, because their scripts keep their own checkpoints.
    """

    def ask(client: Client, view: JobView) -> SubmittedJob:
        made = client.continue_job(view.id, deadline=deadline, kind=kind)
        if view.elasticity == "restart":
            warn(f"{view.id} is a restart job: its script continues from its own checkpoint, if it finds one")
        return made

    _again(jobs, state, no_wait, json, ask)


def _again(
    jobs: list[str],
    state: Path | None,
    no_wait: bool,
    json: bool,
    ask: Callable[[Client, JobView], SubmittedJob],
) -> None:
    from swell.api.resubmission import is_undone

    with swell.connect(state) as client:
        ids = [ask(client, view) for view in _chosen_jobs(client, jobs, is_undone)]
        tell_verdicts(client, ids, no_wait, json)


# ------------------------------------------------------------ wait
@described("""
timeout: DURATION
    Give up after this time, such as 2h. Default: wait for ever.
""")
def wait(jobs: JobNames, timeout: str | None = None, state: State = None, json: Json = False) -> None:
    """Wait until jobs have ended. Exit status 0: all succeeded.

    1: one failed; 3: one was refused; 4: one was cancelled; 6: one ended early, before its end condition
    was met; 7: one was ended at its --time; the first of these that is so. 124: some had not ended after
    --timeout.
    """
    give_up_s = time.monotonic() + (float("inf") if timeout is None else seconds("timeout", timeout))
    with swell.connect(state) as client:
        ids = [view.id for view in client.find_jobs(jobs)]
        views = _await(client, ids, give_up_s, json)
    if json:
        print_json(views)
    is_late = not all(view.phase.is_end for view in views)
    ends = {view.phase for view in views}
    if status := TIMED_OUT if is_late else next((STATUSES[end] for end in STATUSES if end in ends), 0):
        raise typer.Exit(status)


def _await(client: Client, ids: Sequence[str], give_up_s: float, json: bool) -> list[JobView]:
    """Jobs as they are once all have ended, or it is time to give up; each end is told as it comes."""
    told = set[tuple[str, bool]]()
    while True:
        views = [client.job(job_id) for job_id in ids]
        for view in views:
            news = (view.id, view.phase.is_end)
            if news not in told and view.phase.is_end and not json:
                print(verdict(view, "", 0.0), flush=True)
            elif news not in told and view.is_held:
                print_note(f"{view.id}: {view.reason}")
            told |= {news} if view.phase.is_end or view.is_held else set()
        if all(view.phase.is_end for view in views) or time.monotonic() >= give_up_s:
            return views
        time.sleep(min(LOOK_EVERY_S, max(0.0, give_up_s - time.monotonic())))


# ---------------------------------------------------------------- files that jobs have left
@described("""
names (argument): [NAME]...
    Files or folders, as --list shows them. Default: the newest checkpoint, and what the job has written.
to: FOLDER
    Where to copy them to. Default: a folder with the id of the job.
is_list (--list):
    List the files, and download none.
""")
def download(
    job: JobName,
    names: list[str] | None = None,
    to: Path | None = None,
    is_list: bool = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Copy checkpoints of a job, and files that it has written, to this machine.

    A download that broke off goes on where it was.
    """
    with swell.connect(state) as client:
        job_id = client.find_job(job).id
        if is_list:
            files = client.job_files(job_id)
        else:
            paths = client.download(job_id, Path(job_id) if to is None else to, names or [])
    if json:
        print_json(files if is_list else paths)
    elif is_list:
        print_table(("FILE", "SIZE"), [(one.name, format_bytes(one.num_bytes)) for one in files], wrapping=0)
    else:
        print("\n".join(map(str, paths)))
