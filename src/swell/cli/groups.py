"""Groups of jobs: which jobs a command means by the name of one, and a table that compares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from swell.api import words
from swell.api.named_job import choose
from swell.model.job import Phase

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView

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
