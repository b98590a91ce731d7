"""`swell what-if`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from swell.cli.options import Json, State, described
from swell.cli.output import clock, moment, print_json, print_table, warn
from swell.model.quantities import span

if TYPE_CHECKING:
    from swell.api.what_if import Forecast, WhatIf
    from swell.sim.what_if import JobForecast

HEADINGS = ("JOB", "CLASS", "DEADLINE", "NOW", "THEN", "DIFFERENCE")
#: Less is noise of the step under way.
NOTHING_S = 0.5


@described("""
policy: NAME
    Switch to this policy now.
add_nodes (count): N
    Add N nodes that are like the last existing one.
kind: KIND
    Kind of device of the added nodes. Default: the only kind that there is.
drain: NODE
    Drain this node. May be given several times.
submit: FILE.yaml
    Submit the jobs of this file.
""")
def what_if(
    policy: str | None = None,
    add_nodes: int = 0,
    kind: str = "",
    drain: list[str] | None = None,
    submit: Path | None = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Forecast each job after a change of policy, nodes or jobs, without making the change.

    A copy of the live scheduler's state is simulated, with its estimated speeds of the jobs. Options can be
    combined. Works with the platform up or down.
    """
    from swell.api.what_if import WhatIfQuery
    from swell.api.what_if import what_if as ask

    query = WhatIfQuery(
        policy=policy, add_nodes=add_nodes, kind=kind, drain=tuple(drain or ()), submit=submit
    )
    if query == WhatIfQuery(kind=kind):
        raise typer.BadParameter(
            "name at least one change: --policy NAME, --add-nodes N, --drain NODE, --submit FILE.yaml"
        )
    answer = ask(state, query)
    if json:
        print_json(answer)
        return
    for one in answer.left_out:
        warn(f"left out: {one.id} {one.why}")
    _print(answer)


def _print(answer: WhatIf) -> None:
    print("; ".join(_differences(answer)))
    if not answer.jobs:
        print("there are no open jobs")
        return
    print()
    rows = [_row(job, answer.at_s) for job in answer.jobs]
    print_table(HEADINGS, rows, wrapping=None, least_worth=("CLASS", "DEADLINE"))
    print()
    for line in _remarks(answer):
        print(line)


def _differences(answer: WhatIf) -> Iterator[str]:
    if not answer.is_up:
        yield "the platform is down; the forecast assumes that it starts now"
    if answer.policy_then != answer.policy_now:
        yield f"policy {answer.policy_then} instead of {answer.policy_now}"
    if answer.num_devices_then != answer.num_devices_now:
        yield f"{answer.num_devices_then} devices instead of {answer.num_devices_now}"
    num_new = sum(job.is_hypothetical for job in answer.jobs)
    if num_new:
        yield "1 more job" if num_new == 1 else f"{num_new} more jobs"


def _row(job: Forecast, at_s: float) -> tuple[str, ...]:
    return (
        job.id,
        job.job_class,
        "-" if job.deadline_s is None else clock(job.deadline_s, at_s),
        "-" if job.now is None else _end(job.now, at_s),
        _end(job.then, at_s),
        _difference(job),
    )


def _end(forecast: JobForecast, at_s: float) -> str:
    if forecast.phase == "rejected":
        return "refused"
    if forecast.finish_s is None:
        return "never"
    kept = {True: " kept", False: " broken" if forecast.is_promised else " missed", None: ""}[forecast.kept]
    failed = "" if forecast.phase == "succeeded" else f" {forecast.phase}"
    return clock(forecast.finish_s, at_s) + kept + failed


def _difference(job: Forecast) -> str:
    if job.now is None:
        return _answer(job.then) if job.then.finish_s else "-"
    if job.now.finish_s is None or job.then.finish_s is None:
        return "-"
    later_s = job.then.finish_s - job.now.finish_s
    if abs(later_s) < NOTHING_S:
        return "same"
    return f"{span(later_s)} {'later' if later_s > 0 else 'sooner'}"


def _answer(forecast: JobForecast) -> str:
    if forecast.is_unpromised:
        return "tried"
    return "promised" if forecast.is_promised else "accepted"


def _remarks(answer: WhatIf) -> Iterator[str]:
    for job in answer.jobs:
        if job.then.phase == "rejected" and (job.now is None or job.now.phase != "rejected"):
            yield f"{job.id}: refused: {job.then.reason}"
            yield from _offer(job.then, answer.at_s)
        elif job.then.is_unpromised and (job.now is None or not job.now.is_unpromised):
            yield f"{job.id}: not promised: {job.then.reason}"
            yield from _offer(job.then, answer.at_s)
    yield _summary(answer)


def _offer(forecast: JobForecast, at_s: float) -> Iterator[str]:
    if forecast.counter_offer_s is not None:
        yield f"  earliest deadline that can be promised: {moment(forecast.counter_offer_s, at_s)}"


def _summary(answer: WhatIf) -> str:
    """Promises first: a sooner end of one job may be another's broken promise."""
    promised = [job for job in answer.jobs if job.then.is_promised]
    broken = [job.id for job in promised if not job.then.kept]
    told = (
        f"broken promises: {', '.join(broken)}" if broken else f"promises kept: {len(promised)}, broken: none"
    )
    return f"{told}. Nothing has been changed."
