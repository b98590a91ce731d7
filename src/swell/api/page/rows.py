"""What the page shows of jobs, tenants, the platform and of what happened: values that are put in place."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from swell.api import words
from swell.api.words import NOTHING, OVERDUE, SIGNS, done_share, findings_by_effect, standing
from swell.model.deadline_state import is_finish_known
from swell.model.failure import failure_sentence
from swell.model.job import Phase
from swell.model.quota import TenantDevices, told_tenant
from swell.model.usage import AccountShare
from swell.model.view import ClusterView, JobView, Story

#: The timeline shows so much of the past.
HISTORY_S = 3600.0
#: Changes of size of a job that the timeline can show: one every few seconds is a band anyway.
MOST_CHANGES = 400
#: Latest values of the loss in a row.
SPARK_LENGTH = 40


class JobColumn(NamedTuple):
    """A column of the tables of jobs. `job_table.js` fills the cells of *Now* again at each change."""

    name: str  #: of its cells in `rows.html`
    heading: str
    kind: str = ""  #: of its cells, for the style
    is_sorted_by: bool = False  #: in *Now*
    meaning: str = ""


COLUMNS = {
    column.name: column
    for column in (
        JobColumn("name", "Job", is_sorted_by=True),
        JobColumn("phase", "Phase", "phase", is_sorted_by=True, meaning="What it does, or how it ended"),
        JobColumn("sign", "Promise", "state", is_sorted_by=True, meaning="How its deadline stands"),
        JobColumn("cls", "Class", "more"),
        JobColumn("tenant", "Tenant", "more"),
        JobColumn("size", "Size", "number size", is_sorted_by=True),
        JobColumn("done", "Done", "number done", is_sorted_by=True),
        JobColumn("bar", "", "bar"),
        JobColumn("submitted", "Submitted", "more"),
        JobColumn("finish", "Finish", "expected", is_sorted_by=True),
        JobColumn("deadline", "Deadline", "deadline", is_sorted_by=True),
        JobColumn("loss", "Loss", "loss", is_sorted_by=True),
        JobColumn("trained", "Trained", "number", meaning="From its first step to its end"),
        JobColumn("device_time", "Device time", "number more", meaning="Trained times devices"),
        JobColumn("resizes", "Resizes", "number more"),
        JobColumn("paused", "Paused", "number more"),
        JobColumn("saved", "Saved", "number more"),
        JobColumn("reason", "Why", "reason"),
    )
}
NOW = ("name", "phase", "sign", "size", "done", "bar", "finish", "deadline", "loss", "reason")
HISTORY = (
    *("name", "phase", "sign", "cls", "tenant", "submitted", "finish", "deadline"),
    *("trained", "device_time", "resizes", "paused", "saved"),
)


#: Fields of a row that are those of the view.
ALIKE = ("id", "name", "tenant", "user", "group", "tags", "is_promised", "steps")


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """One job in the table and in the timeline. Times are seconds since 1970, to the second.

    By default it is a blank row, of which the page makes those of jobs that come later.
    """

    id: str = ""
    name: str = ""
    short_id: str = ""  #: the part of its id that other jobs of its name do not have
    tenant: str = ""
    user: str = ""
    group: str = ""
    tags: tuple[str, ...] = ()
    cls: str = ""
    phase: str = ""
    is_open: bool = True
    standing: str = "free"  #: of its deadline: a key of `SIGNS`
    sign: str = ""  #: the same in words
    phase_word: str = ""  #: its phase as `swell jobs` has it
    mood: str = ""  #: of its phase: `bad` if that is a failure
    stalled_since_s: int | None = None  #: it runs, and has made no step since
    is_promised: bool = False
    size: int = 0  #: workers
    wanted: str = ""  #: which sizes it may have, of an open job that may have several
    devices: int = 0
    done: float | None = None  #: share of its steps; None: how many there are is not known
    steps: int = 0
    submitted_s: int = 0
    started_s: int | None = None
    deadline_s: int | None = None
    expected_s: int | None = (
        None  #: None: it has ended, no end can be named, or no more than a guess is known
    )
    finished_s: int | None = None
    offer_s: int | None = None  #: refused: the earliest deadline that could have been promised
    loss: float | None = None
    spark: tuple[float, ...] = ()
    changes: tuple[tuple[float, int], ...] = ()  #: (at_s, devices) from each time on
    why: str = ""  #: how it failed, or why it has what it has, without the end that is expected
    warnings: tuple[str, ...] = ()
    known: tuple[str, ...] = ()  #: what its trial run found that does not limit it


def job_row(
    view: JobView, now_s: float, before: JobRow | None = None, losses: tuple[float, ...] = ()
) -> JobRow:
    """
    Args:
        before: the row that the job had, from which the spark line goes on.
        losses: with which it begins, where there was no row.
    """
    loss = view.loss if view.loss is not None and math.isfinite(view.loss) else None
    share, found = done_share(view), standing(view, now_s)
    limits, known = findings_by_effect(view)
    is_failed = view.phase in (Phase.FAILED, Phase.TIMED_OUT, Phase.ENDED_EARLY)
    return JobRow(
        **{name: getattr(view, name) for name in ALIKE},
        short_id=view.id.removeprefix(f"{view.name}-"),
        cls=str(view.job_class),
        phase=str(view.phase),
        is_open=not view.phase.is_end,
        standing=found,
        sign=SIGNS[found],
        phase_word=words.phase(view, now_s),
        mood="bad" if is_failed or view.stalled_since_s or words.is_diverged(view) else "",
        stalled_since_s=_second(view.stalled_since_s),
        size=len(view.devices) if view.fixed else view.workers,
        wanted=_wanted(view),
        devices=len(view.devices),
        done=None if share is None else round(share, 3),
        submitted_s=math.floor(view.submitted_s),
        started_s=_second(view.started_s),
        deadline_s=_second(view.deadline_s),
        expected_s=_second(view.estimated_finish_s) if is_finish_known(view) else None,
        finished_s=_second(view.finished_s),
        offer_s=_second(view.counter_offer_s),
        loss=loss,
        spark=losses if before is None and losses else _spark(view, loss, before),
        changes=_changes(view, now_s),
        why=failure_sentence(view.message) or view.reason,
        warnings=(*limits, *(f"{about}: {text}" for about, text in view.warnings.items())),
        known=known,
    )


def _wanted(view: JobView) -> str:
    if view.phase.is_end or view.min_workers == view.max_workers:
        return ""
    most = " or more" if view.max_workers is None else f"{NOTHING}{view.max_workers}"
    return f"{view.min_workers}{most}"


def _second(at_s: float | None) -> int | None:
    """The second in which it is, as a clock shows it."""
    return None if at_s is None else math.floor(at_s)


def _spark(view: JobView, loss: float | None, before: JobRow | None) -> tuple[float, ...]:
    """The latest values of the loss, of which the view has one."""
    former = () if before is None else before.spark
    if loss is None or (before is not None and before.steps == view.steps):
        return former
    return (*former, loss)[-SPARK_LENGTH:]


def thinned(values: Sequence[float]) -> tuple[float, ...]:
    """Return up to SPARK_LENGTH of the values, evenly spaced, the last one included."""
    every = -(-len(values) // SPARK_LENGTH) or 1
    return tuple(values[::-1][::every][::-1])


def _changes(view: JobView, now_s: float) -> tuple[tuple[float, int], ...]:
    """Pairs of time and number of devices: the size when the last hour began, and its changes since."""
    first = 0
    for number, (at_s, _) in enumerate(view.sizes):
        if at_s <= now_s - HISTORY_S:
            first = number
    latest = view.sizes[max(first, len(view.sizes) - MOST_CHANGES) :]
    return tuple((round(at_s, 1), workers * view.devices_per_worker) for at_s, workers in latest)


#: The order of the table: what runs, what waits, what has ended.
ORDER = {"running": 0, "starting": 0, "stopping": 0, "queued": 1}


def place_in_table(row: JobRow) -> tuple[int, float, str]:
    """Ended ones newest first, others oldest first."""
    group = ORDER.get(row.phase, 2)
    return (group, row.submitted_s if group < 2 else -(row.finished_s or 0), row.id)


def becomes_overdue(row: JobRow, now_s: float) -> bool:
    """Whether its deadline has passed since the row was made, without a turn of the head."""
    is_past = row.deadline_s is not None and row.deadline_s + 1.0 < now_s  # which a row has to the second
    return row.is_open and is_past and row.standing != OVERDUE


# ---------------------------------------------------------------- the platform
class TenantRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many devices of a kind the jobs of a tenant with a quota hold, and may hold."""

    tenant: str = ""
    kind: str = ""  #: empty where all are of one kind
    num_held: int = 0  #: more than `most` for a while: promises outlast a quota that is lowered
    most: int = 0  #: 0: it has no quota
    used: str = ""  #: of its share; empty: that does not count, or its first row tells it


def tenant_rows(
    tenants: Mapping[tuple[str, str], TenantDevices], accounts: Iterable[AccountShare]
) -> tuple[TenantRow, ...]:
    """Rows of tenants that have a quota, one for each kind of device, and of others that have used some."""
    is_one_kind = len({kind for _, kind in tenants}) == 1
    used = {account.name: account.told for account in accounts}
    limited = tuple(
        TenantRow(
            tenant=tenant,
            kind="" if is_one_kind else kind,
            num_held=devices.num_held,
            most=devices.most,
            used=used.pop(tenant, ""),
        )
        for (tenant, kind), devices in tenants.items()
    )
    others = used.items() if len(used) + len(limited) > 1 else ()
    return (*limited, *(TenantRow(tenant=told_tenant(name), used=told) for name, told in others))


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The platform in a line."""

    facts: dict[str, str]  #: texts by their `data-fact` in `now.html`
    warnings: tuple[str, ...]


def totals(cluster: ClusterView) -> Totals:
    num_back = 0 if cluster.borrowed is None else cluster.borrowed.num_given_back
    facts = {
        "devices": f"{cluster.num_devices - cluster.num_free} of {cluster.num_devices} devices in use",
        "given-back": f"{num_back} borrowed node{'s' * (num_back > 1)} given back" if num_back else "",
        "policy": f"policy {cluster.policy}",
    }
    warnings = (f"{about}: {text}" for about, text in cluster.warnings.items())
    return Totals(facts=facts, warnings=(*filter(None, [cluster.clock_note]), *warnings))


# ---------------------------------------------------------------- what happened
class StoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, and why."""

    at_s: int
    job_id: str
    job: str  #: its name
    text: str


#: Codes of lines that change nothing a job has, that say that what was decided is done, or that are shown
#: with the job itself, as what its trial run has found.
NO_CHANGE = frozenset({"finding", "profiled", "resized", "started", "verified"})


def changes_only(
    stories: Iterable[tuple[str, Story]], before: Mapping[str, str] = MappingProxyType({})
) -> list[tuple[str, Story]]:
    """Return one line a change, and what happened to a job in one second as one.

    Lines of NO_CHANGE are left out, and a reason that its decision repeats. `swell explain` shows all lines.

    Args:
        before: the text of the last line of each job before these.
    """
    found: dict[int, tuple[str, Story]] = {}  #: by place among the stories
    latest: dict[str, int] = {}  #: place of the last line of each job
    for place, (job_id, story) in enumerate(stories):
        last = latest.get(job_id)
        former = None if last is None else found[last][1]
        said = before.get(job_id, "") if former is None else former.text
        if story.code in NO_CHANGE or story.text in said:
            continue
        if last is not None and former is not None and math.floor(former.at_s) == math.floor(story.at_s):
            text = story.text if said in story.text else f"{said}; {story.text}"
            story = msgspec.structs.replace(story, text=text)
            del found[last]
        elif last is not None and said in story.text:
            del found[last]
        latest[job_id] = place
        found[place] = job_id, story
    return list(found.values())
