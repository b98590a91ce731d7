"""`swell prioritize`."""

from __future__ import annotations

from swell.cli.job_options import OtherPriority, OtherWeight
from swell.cli.options import JobNames, Json, State
from swell.cli.output import print_json
from swell.model.errors import InvalidInput
from swell.model.job import MOST_WEIGHT


def prioritize(
    jobs: JobNames,
    priority: OtherPriority = None,
    weight: OtherWeight = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Give jobs another priority, another weight, or both.

    Promises that were given are kept. Jobs that hold devices may have to give them up to those whose
    priority is higher now: they are saved, and go on later.
    """
    if priority is None and weight is None:
        raise InvalidInput("nothing is to be changed; give --priority, --weight or both")
    from swell.api.client import connect
    from swell.api.fields import bounded
    from swell.cli.groups import find_jobs

    if weight is not None:
        bounded("weight", weight, 1 / MOST_WEIGHT, MOST_WEIGHT)  # JSON has no NaN
    with connect(state) as client:
        found = [view for view in find_jobs(client, jobs) if not (view.group in jobs and view.phase.is_end)]
        views = [client.change_priority(view.id, priority, weight) for view in found]
    if json:
        print_json(views)
        return
    for view in views:
        told = [] if priority is None else [f"priority {view.priority} among {view.job_class} jobs"]
        told += [] if weight is None else [f"weight {view.weight:g}"]
        print(f"{view.id}: has {' and '.join(told)}")
