"""What the page shows of a job: values that a template or a script puts in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from swell.api.words import ENDS, NOTHING, OVERDUE, SIGNS, done_share, findings_by_effect, standing
from swell.model.deadline_state import is_finish_known
from swell.model.expectation import without_expected_end
from swell.model.failure import failure_sentence
from swell.model.view import JobView

#: The timeline shows so much of the past.
HISTORY_S = 3600.0
#: Changes of size of a job that the timeline can show: one every few seconds is a band anyway.
MOST_CHANGES = 400
#: Latest values of the loss in a row.
SPARK_LENGTH = 40


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """One job in the table and in the timeline. Times are seconds since 1970, to the second."""

    id: str
    name: str
    tenant: str
    user: str
    group: str
    tags: tuple[str, ...]
    cls: str
    phase: str
    is_open: bool
    standing: str  #: of its deadline: a key of `SIGNS`
    is_promised: bool
    size: int  #: workers
    wanted: str  #: which sizes it may have, of an open job that may have several
    devices: int
    done: float | None  #: share of its steps; None: how many there are is not known
    steps: int
    submitted_s: int
    started_s: int | None
    deadline_s: int | None
    expected_s: int | None  #: None: it has ended, no end can be named, or no more than a guess is known
    finished_s: int | None
    offer_s: int | None  #: refused: the earliest deadline that could have been promised
    loss: float | None
    spark: tuple[float, ...]
    changes: tuple[tuple[float, int], ...]  #: (at_s, devices) from each time on
    reason: str  #: without the end that is expected, which `expected_s` is
    message: str
    warnings: tuple[str, ...]
    known: tuple[str, ...]  #: what its trial run found that does not limit it

    @property
    def short_id(self) -> str:
        """The part of its id that other jobs of its name do not have."""
        return self.id.removeprefix(f"{self.name}-")

    @property
    def sign(self) -> str:
        """Its standing in words."""
        return SIGNS[self.standing]

    @property
    def phase_beside_sign(self) -> str:
        """Its phase; empty where its sign says as much."""
        return "" if self.standing in ENDS.values() else self.phase

    @property
    def done_text(self) -> str:
        """How far it is."""
        return NOTHING if self.done is None else f"{self.done:.0%}"

    @property
    def loss_text(self) -> str:
        """The latest one."""
        return "" if self.loss is None else f"{self.loss:.4g}"

    @property
    def why(self) -> str:
        """How it failed, or why it has what it has."""
        return self.message or self.reason


#: From which the page makes rows of jobs that come later.
BLANK = JobRow(
    id="",
    name="",
    tenant="",
    user="",
    group="",
    tags=(),
    cls="",
    phase="",
    is_open=True,
    standing="free",
    is_promised=False,
    size=0,
    wanted="",
    devices=0,
    done=None,
    steps=0,
    submitted_s=0,
    started_s=None,
    deadline_s=None,
    expected_s=None,
    finished_s=None,
    offer_s=None,
    loss=None,
    spark=(),
    changes=(),
    reason="",
    message="",
    warnings=(),
    known=(),
)


def job_row(
    view: JobView, now_s: float, before: JobRow | None = None, losses: tuple[float, ...] = ()
) -> JobRow:
    """
    Args:
        before: the row that the job had, from which the spark line goes on.
        losses: with which it begins, where there was no row.
    """
    loss = view.loss if view.loss is not None and math.isfinite(view.loss) else None
    share = done_share(view)
    limits, known = findings_by_effect(view)
    return JobRow(
        id=view.id,
        name=view.name,
        tenant=view.tenant,
        user=view.user,
        group=view.group,
        tags=view.tags,
        cls=str(view.job_class),
        phase=str(view.phase),
        is_open=not view.phase.is_end,
        standing=standing(view, now_s),
        is_promised=view.is_promised,
        size=view.workers,
        wanted=_wanted(view),
        devices=len(view.devices),
        done=None if share is None else round(share, 3),
        steps=view.steps,
        submitted_s=math.floor(view.submitted_s),
        started_s=_second(view.started_s),
        deadline_s=_second(view.deadline_s),
        expected_s=_second(view.estimated_finish_s) if is_finish_known(view) else None,
        finished_s=_second(view.finished_s),
        offer_s=_second(view.counter_offer_s),
        loss=loss,
        spark=losses if before is None and losses else _spark(view, loss, before),
        changes=_changes(view, now_s),
        reason=without_expected_end(view.reason),
        message=failure_sentence(view.message),
        warnings=(*limits, *(f"{about}: {text}" for about, text in view.warnings.items())),
        known=known,
    )


def _wanted(view: JobView) -> str:
    if view.phase.is_end or view.least_workers == view.max_workers:
        return ""
    most = " or more" if view.max_workers is None else f"{NOTHING}{view.max_workers}"
    return f"{view.least_workers}{most}"


def _second(at_s: float | None) -> int | None:
    """The second in which it is, as a clock shows it."""
    return None if at_s is None else math.floor(at_s)


def _spark(view: JobView, loss: float | None, before: JobRow | None) -> tuple[float, ...]:
    """The latest values of the loss, of which the view has one."""
    former = () if before is None else before.spark
    if loss is None or (before is not None and before.steps == view.steps):
        return former
    return (*former, loss)[-SPARK_LENGTH:]


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


def becomes_overdue(row: JobRow, now_s: float) -> bool:
    """Whether its deadline has passed since the row was made, without a turn of the head."""
    return (
        row.is_open
        and row.standing != OVERDUE
        and row.deadline_s is not None
        and row.deadline_s + 1.0 < now_s  # which a row has to the second
    )


def place_in_table(row: JobRow) -> tuple[int, float, str]:
    """Ended ones newest first, others oldest first."""
    group = ORDER.get(row.phase, 2)
    return (group, row.submitted_s if group < 2 else -(row.finished_s or 0), row.id)


def thinned(values: Sequence[float]) -> tuple[float, ...]:
    """Return up to SPARK_LENGTH of the values, evenly spaced, the last one included."""
    every = -(-len(values) // SPARK_LENGTH) or 1
    return tuple(values[::-1][::every][::-1])


def changed_fields(before: JobRow, after: JobRow) -> dict[str, Any]:
    """What a page that has the one lacks of the other. It makes the spark line longer by itself."""
    names = (name for name in JobRow.__struct_fields__ if name != "spark")
    return {name: new for name in names if (new := getattr(after, name)) != getattr(before, name)}
