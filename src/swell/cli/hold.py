"""`swell hold` and `swell resume`."""

from __future__ import annotations

from swell.cli.options import JobNames, Json, State
from swell.cli.output import print_json
from swell.cli.promise import decided, exit_if_refused, tell_answers


def hold(jobs: JobNames, state: State = None, json: Json = False) -> None:
    """Have jobs give up their devices, saved, and wait until they are resumed.

    A job that runs saves a checkpoint first. A promise of its deadline is withdrawn, so that other jobs can
    have its devices, and is asked for again when it is resumed. A queued job can be held too.
    """
    from swell.api.client import connect
    from swell.cli.groups import find_jobs

    with connect(state) as client:
        found = [view for view in find_jobs(client, jobs) if not (view.group in jobs and view.phase.is_end)]
        views = [client.hold(view.id) for view in found]
    if json:
        print_json(views)
        return
    for before, view in zip(found, views, strict=True):
        withdrawn = ", and its promise is withdrawn" if before.is_promised else ""
        what = "will be saved and held" if view.phase.holds_devices else "is held"
        print(f"{view.id}: {what}{withdrawn}; `swell resume {view.id}` lets it go on")


def resume(jobs: JobNames, state: State = None, json: Json = False) -> None:
    """Let held jobs go on from where they were saved.

    A promise that was withdrawn is asked for again. If it cannot be made, the job runs on as a soft job with
    that deadline, and the exit status is 3.
    """
    from swell.api.client import connect
    from swell.cli.groups import find_jobs

    with connect(state) as client:
        found = [view for view in find_jobs(client, jobs) if view.group not in jobs or view.is_held]
        resumed = [client.resume(view.id) for view in found]
        views = [decided(client, view) for view in resumed]
        if json:
            print_json(views)
        else:
            for view in found:
                if not view.is_held and not view.awaits:
                    print(f"{view.id}: was not held, so there is nothing to resume")
            tell_answers(client, views)
    exit_if_refused(views)
