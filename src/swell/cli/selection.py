"""Which jobs a command is about, by what a user writes, and tables that compare them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from swell.api import words
from swell.api.durations import parse_duration
from swell.api.named_job import choose
from swell.api.times import parse_time
from swell.cli.output import warn
from swell.model.job import Phase
from swell.model.job_query import newest
from swell.store.folder import StateFolder

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView


def find_job(client: Client, wanted: str) -> JobView:
    """Raises UnknownJob if no job, or more than one, could be meant."""
    return choose(client.candidates(wanted), wanted)


def connect_to_read(state: Path | None) -> Client:
    """Connect to the platform of a state folder; if none is up, read the folder, and say so.

    Raises as `connect`; StateError: the journal cannot be read.
    """
    from swell.api.client import NoPlatform, connect

    try:
        return connect(state)
    except NoPlatform as error:
        from swell.store.folder import StateFolder

        if not StateFolder(state).journal.exists():
            raise
        from swell.api.stored_transport import read_stored  # the scheduler, which clients do without

        client = read_stored(state, error)
        warn(f"{error}; shown is what the state folder keeps")
        return client


#: Metrics of which a table of a group has a column.
MOST_METRICS = 4


def find_jobs(client: Client, wanted: Iterable[str]) -> list[JobView]:
    """The jobs that these ids, names and names of groups mean, each once. Raises UnknownJob."""
    found: dict[str, JobView] = {}
    for word in wanted:
        candidates = client.candidates(word)
        is_exact = any(word in (view.id, view.name) for view in candidates)
        members = members_of(client, word) if word and not is_exact else []
        found |= {view.id: view for view in members or [choose(candidates, word)]}
    return list(found.values())


def members_of(client: Client, group: str) -> list[JobView]:
    """The jobs of a group, oldest first; empty if there is no such group."""
    return [view for view in client.jobs() if view.group == group]


def table(views: Sequence[JobView], now_s: float) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and rows: a column for each parameter, that is for each tag `NAME=VALUE`, and each metric."""
    parameters = list(dict.fromkeys(name for view in views for name in tag_values(view)))
    metrics = list(dict.fromkeys(name for view in views for name in words.latest(view)))[:MOST_METRICS]
    headings = ("JOB", "PHASE", "DONE", *parameters, *metrics, "FINISH")
    rows = [
        (
            view.id,
            words.phase(view),
            words.done(view),
            *(tag_values(view).get(name, "-") for name in parameters),
            *(_number(words.latest(view).get(name)) for name in metrics),
            words.distance(view, now_s) or "-",
        )
        for view in views
    ]
    return headings, rows


def summary(group: str, views: Sequence[JobView]) -> str:
    """`6 jobs of lr-sweep: 2 running, 4 succeeded; best loss 0.12: lr-sweep-3 (lr=0.1)`"""
    counts = Counter(view.phase for view in views)
    phases = ", ".join(f"{counts[phase]} {phase}" for phase in Phase if counts[phase])
    text = f"{len(views)} {'job' if len(views) == 1 else 'jobs'} of {group}: {phases}"
    values = [(value, view) for view in views if (value := _value(view)) is not None and value == value]
    if not values:
        return text
    rises = values[-1][1].metric_rises
    value, best = (max if rises else min)(values, key=lambda pair: pair[0])
    given = ", ".join(f"{name}={word}" for name, word in tag_values(best).items())
    return f"{text}; best {best.metric} {value:.4g}: {best.id}{f' ({given})' if given else ''}"


def _value(view: JobView) -> float | None:
    return words.latest(view).get(view.metric)


def tag_values(view: JobView) -> dict[str, str]:
    """The values of tags `NAME=VALUE`, by name."""
    pairs = (tag.partition("=") for tag in view.tags)
    return {name: value for name, sign, value in pairs if name and sign}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


HOLDING = frozenset(phase for phase in Phase if phase.holds_devices)
ENDED = frozenset(phase for phase in Phase if phase.is_end)
#: A limit is spent on these groups one after the other.
BY_IMPORTANCE = (HOLDING, frozenset({Phase.QUEUED}), ENDED)
#: Words for phases besides their own names, as people type them.
WORDS = {
    "open": HOLDING | {Phase.QUEUED},
    "ended": ENDED,
    "finished": ENDED,
    "held": frozenset({Phase.QUEUED}),
    "pending": frozenset({Phase.QUEUED}),
    "waiting": frozenset({Phase.QUEUED}),
    "active": HOLDING,
    "done": frozenset({Phase.SUCCEEDED}),
    "success": frozenset({Phase.SUCCEEDED}),
    "successful": frozenset({Phase.SUCCEEDED}),
    "completed": frozenset({Phase.SUCCEEDED}),
    "error": frozenset({Phase.FAILED}),
    "canceled": frozenset({Phase.CANCELLED}),
    "refused": frozenset({Phase.REJECTED}),
    **{phase.value: frozenset({phase}) for phase in Phase},
}
#: Those that an error lists.
LISTED_WORDS = ("open", "ended", "held", *Phase)


@dataclass(frozen=True, slots=True)
class Selection:
    """The jobs that a list shows, and the numbers of those that it leaves out."""

    views: list[JobView]  #: oldest first
    counts: Mapping[Phase, int] = field(default_factory=dict)  #: of jobs that the limit leaves out

    @property
    def num_left_out(self) -> int:
        return sum(self.counts.values())

    @property
    def left_out(self) -> str:
        """`4,900 queued, 12 failed`"""
        return told_phases(self.counts)


def told_phases(counts: Mapping[Phase, int], phases: Iterable[Phase] = Phase) -> str:
    """Numbers of jobs by phase, as `4,900 queued, 12 failed`; `phases`: only of these."""
    wanted = [phase for phase in Phase if phase in phases]
    return ", ".join(f"{counts[phase]:,} {phase}" for phase in wanted if counts.get(phase))


def select(
    client: Client,
    phases: frozenset[Phase],
    since_s: float | None,
    limit: int,
    is_wanted: Callable[[JobView], bool] | None = None,
) -> Selection:
    """The most important `limit` jobs in these phases that had not ended before; 0: all.

    Args:
        is_wanted: only these, which are looked for among all; None: any.
    """
    if is_wanted is not None:
        return _most_important([*filter(is_wanted, client.jobs(phases, since_s))], limit)
    if limit == 0:
        return Selection(client.jobs(phases, since_s))
    views: list[JobView] = []
    for group in BY_IMPORTANCE:
        if group & phases and len(views) < limit:
            views += client.jobs(group & phases, since_s, limit - len(views))
    is_all = len(views) < limit or since_s is not None
    return Selection(newest(views, 0), {} if is_all else _rest(client.count_jobs(), phases, views))


def _most_important(views: list[JobView], limit: int) -> Selection:
    """Select the `limit` most important of these jobs; 0: all of them."""
    if limit == 0 or len(views) <= limit:
        return Selection(views)
    groups = [[view for view in views if view.phase in group] for group in BY_IMPORTANCE]
    chosen: list[JobView] = []
    for group in groups:
        chosen += newest(group, limit - len(chosen)) if len(chosen) < limit else []
    left_out = Counter(view.phase for view in views) - Counter(view.phase for view in chosen)
    return Selection(newest(chosen, 0), left_out)


def _rest(counts: Mapping[Phase, int], phases: Iterable[Phase], views: list[JobView]) -> dict[Phase, int]:
    shown = [view.phase for view in views]
    return {phase: max(0, counts.get(phase, 0) - shown.count(phase)) for phase in phases}


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


def phase_or_folder(phase: str | None, state: Path | None) -> tuple[str | None, Path | None]:
    """What is meant by `--state`, which elsewhere is the state folder and here may be phases too.

    Raises BadParameter: it is neither.
    """
    if state is None or phase is not None or StateFolder(state).journal.exists():
        return phase, state
    if all(word in WORDS for word in phase_words(str(state))):
        return str(state), None
    if len(state.parts) == 1 and not state.is_absolute() and not state.is_dir() and str(state) != "~":
        raise typer.BadParameter(
            f"--state: {str(state)!r} is neither a phase ({', '.join(LISTED_WORDS)}) nor a state folder"
        )
    return None, state


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
    return lambda now_s: parse_time(text, now_s)
