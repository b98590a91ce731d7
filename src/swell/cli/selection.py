"""Which jobs a command is about, by what a user writes, and where they are: platform or simulated run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import swell
from swell.api.times import DAY_S, parse_time
from swell.cli.options import left_folder
from swell.cli.output import RunTimes, Times, warn
from swell.model.errors import InvalidInput
from swell.model.job import Phase
from swell.model.job_query import choose, newest
from swell.model.quantities import parse_duration

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView, Story


HOLDING = frozenset(phase for phase in Phase if phase.holds_devices)
ENDED = frozenset(phase for phase in Phase if phase.is_end)
#: A limit is spent on these groups one after the other.
BY_IMPORTANCE = (HOLDING, frozenset({Phase.QUEUED}), ENDED)
#: Words for phases besides their own names, as people type them.
WORDS = {
    "open": HOLDING | {Phase.QUEUED},
    "active": HOLDING,
    **dict.fromkeys(("ended", "finished"), ENDED),
    **dict.fromkeys(("held", "pending", "waiting"), frozenset({Phase.QUEUED})),
    **dict.fromkeys(("done", "success", "successful", "completed"), frozenset({Phase.SUCCEEDED})),
    "error": frozenset({Phase.FAILED}),
    "timeout": frozenset({Phase.TIMED_OUT}),
    "canceled": frozenset({Phase.CANCELLED}),
    "refused": frozenset({Phase.REJECTED}),
    **{phase.value: frozenset({phase}) for phase in Phase},
}
#: Those that an error lists.
LISTED_WORDS = ("open", "ended", "held", *Phase)


def connect_to_read(state: Path | None) -> Client:
    """Connect to the platform of a state folder; if none is up, read the folder, and say so.

    Raises as `swell.connect`; StateError: the journal cannot be read.
    """
    from swell.api.client import NoPlatform

    try:
        return swell.connect(state)
    except NoPlatform as error:
        if (folder := left_folder(state)) is None or not folder.journal.exists():
            raise
        from swell.api.stored_transport import read_stored  # the scheduler, which clients do without

        client = read_stored(state, error)
        warn(f"{error}; shown is what the state folder keeps")
        return client


def phases_text(counts: Mapping[Phase, int], phases: Iterable[Phase] = Phase) -> str:
    """Numbers of jobs by phase, as `4,900 queued, 12 failed`; `phases`: only of these."""
    wanted = [phase for phase in Phase if phase in phases]
    return ", ".join(f"{counts[phase]:,} {phase}" for phase in wanted if counts.get(phase))


def select(
    client: Client,
    phases: frozenset[Phase],
    since_s: float | None,
    limit: int,
    is_wanted: Callable[[JobView], bool] | None = None,
) -> tuple[list[JobView], Counter[Phase]]:
    """The most important `limit` jobs in these phases that had not ended before, oldest first.

    Also returns the numbers of those that the limit leaves out, by phase.

    Args:
        limit: 0: all of them.
        is_wanted: only these, which are looked for among all; None: any.
    """
    if is_wanted is None and limit:
        counts = Counter({phase: num for phase, num in client.count_jobs().items() if phase in phases})
        newest_in = partial(client.jobs, since_s=since_s)
    else:
        every = [view for view in client.jobs(phases, since_s) if is_wanted is None or is_wanted(view)]
        counts = Counter(view.phase for view in every)
        newest_in = partial(_newest_in, every)
    views: list[JobView] = []
    for group in BY_IMPORTANCE:
        if group & phases and (not limit or len(views) < limit):
            views += newest_in(phases=group & phases, limit=limit and limit - len(views))
    is_all = not limit or len(views) < limit or (is_wanted is None and since_s is not None)
    return newest(views, 0), Counter() if is_all else counts - Counter(view.phase for view in views)


def _newest_in(views: list[JobView], phases: frozenset[Phase], limit: int) -> list[JobView]:
    return newest([view for view in views if view.phase in phases], limit)


def parse_phases(text: str | None) -> frozenset[Phase]:
    """Phases as people type them: in any case, by other words too. Raises BadParameter. None: all phases."""
    if text is None:
        return frozenset(Phase)
    words = phase_words(text)
    for word in words:
        if word not in WORDS:
            raise typer.BadParameter(f"--phase: {word!r} is not known; choose from {', '.join(LISTED_WORDS)}")
    return frozenset[Phase]().union(*(WORDS[word] for word in words))


def phase_words(text: str) -> list[str]:
    """The words of a list of phases, in small letters."""
    return [part.strip().lower() for part in text.split(",")]


def asks_for_held(text: str | None) -> bool:
    """Whether only held jobs of the phase `queued` are asked for."""
    words = [] if text is None else phase_words(text)
    queued = [word for word in words if Phase.QUEUED in WORDS[word]]
    return queued == ["held"]


def parse_since(text: str | None, option: str = "since") -> Callable[[float], float | None]:
    """Seconds since 1970, given those of now. Raises BadParameter. None: since ever."""
    if text is None:
        return lambda now_s: None
    with suppress(ValueError):
        ago_s = parse_duration(text)
        return lambda now_s: now_s - ago_s
    try:
        parse_time(text, 0.0)
    except ValueError as error:
        raise typer.BadParameter(
            f"--{option}: {text!r} is not a time; write 2h for two hours ago, or 2030-01-31T18:00:00"
        ) from error
    # `18:00` is the next one, and jobs ended after the last one.
    return lambda now_s: (at_s := parse_time(text, now_s)) - DAY_S * (at_s > now_s)


@dataclass(frozen=True, slots=True)
class ShownJobs:
    """Jobs that can be shown."""

    times: Times
    find: Callable[[str], JobView]  #: raises UnknownJob if no job, or more than one, could be meant
    stories: Callable[[JobView], Sequence[Story]]  #: of the job's decisions, oldest first


@contextmanager
def shown_jobs(run: Path | None, policy: str | None, state: Path | None) -> Iterator[ShownJobs]:
    """The jobs that `--run`, `--policy` and `--state` mean; without the first a platform's.

    Raises:
        StateError: the folder holds no such record.
        InvalidInput: it holds those of several policies.
    """
    if run is None:
        if policy is not None:
            raise typer.BadParameter("--policy needs --run FOLDER; a platform has only one policy")
        with connect_to_read(state) as client:
            times = Times(client.cluster().now_s)
            yield ShownJobs(times, client.find_job, lambda view: client.stories(view.id))
        return
    if state is not None:
        raise typer.BadParameter("--run and --state exclude each other; give one of them")
    yield _recorded_jobs(run, policy)


def _recorded_jobs(run: Path, policy: str | None) -> ShownJobs:
    """Those of one policy; the run ends with its last job."""
    from swell.store.journal import RunRecord

    record = RunRecord(run)
    known = record.policies()
    if policy is None and len(known) > 1:
        raise InvalidInput(f"the run in {run} has {', '.join(known)}; choose one with --policy")
    policy = policy or known[0]
    jobs = record.jobs(policy)

    times = RunTimes(max((view.finished_s or 0.0 for view in jobs), default=0.0))
    return ShownJobs(
        times,
        lambda one: choose(jobs, one, f"the run in {run} has {len(jobs):,} others"),
        lambda view: record.stories(policy, view.id),
    )
